// tests/npm/clients/check.mjs - counts checks and prints the closing line.
let passed = 0, failed = 0;

export function check(ok, what) {
  if (ok) passed++;
  else { failed++; console.log(`FAILED: ${what}`); }
}

export function close() {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}
