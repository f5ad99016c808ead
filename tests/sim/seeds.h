/* tests/sim/seeds.h - runs scripts in children, and makes a failing one short.
 *
 * A script is a child process: an assertion, a failed CHECK or a hang (an alarm) ends it and
 * nothing else.  Shrinking drops runs of rows, then single ones, then makes numbers smaller, as
 * long as the script still fails; bounded by SEEDS_TRIES runs. */
#ifndef SIM_SEEDS_H
#define SIM_SEEDS_H

#include "tests/sim/world.h"

#include <fcntl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEEDS_TRIES = 1500, SEEDS_CHILD_S = 20, SEEDS_WALL_S = 120 };

/* Runs in the child; never returns. */
static _Noreturn void child(const struct sim_script *s, int out, bool quiet)
{
    test_alone();
    if (quiet) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
    }
    setitimer(ITIMER_PROF, &(struct itimerval){ .it_value.tv_sec = SEEDS_CHILD_S }, NULL);
    alarm(SEEDS_WALL_S);
    world_run(s);
    bool told = write(out, &world.sum, sizeof world.sum) == (ssize_t)sizeof world.sum;
    _Exit(told ? 0 : 1);
}

/* True when the script held; `sum` gets what the child counted. */
static bool seeds_hold(const struct sim_script *s, bool quiet, struct sim_sum *sum)
{
    int pipes[2], status = 0;
    CHECK(pipe(pipes) == 0);
    world_files = files_make();
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child(s, pipes[1], quiet);
    close(pipes[1]);
    bool told = read(pipes[0], sum, sizeof *sum) == (ssize_t)sizeof *sum;
    close(pipes[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    files_remove();
    return told && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static u32 seeds_tries;             /* runs that shrinking may still make                         */

static bool still_fails(const struct sim_script *s)
{
    struct sim_sum sum;
    if (seeds_tries == 0) return false;
    seeds_tries--;
    return !seeds_hold(s, true, &sum);
}

/* One sweep: runs of `size` rows go where the script fails without them. */
static bool drop_runs(struct sim_script *s, u32 size)
{
    static struct sim_script less;
    bool any = false;
    for (u32 at = s->count; at > 0;) {
        at = at > size ? at - size : 0;
        u32 n = MIN(size, s->count - at);
        less.setup = s->setup;
        less.count = s->count - n;
        memcpy(less.op, s->op, at * sizeof *s->op);
        memcpy(less.op + at, s->op + at + n, (s->count - at - n) * sizeof *s->op);
        if (!still_fails(&less)) continue;
        memcpy(s->op, less.op, less.count * sizeof *s->op);
        s->count = less.count;
        any = true;
    }
    return any;
}

/* Tries smaller numbers in one column of one row. */
static bool lessen(struct sim_script *s, u16 *number)
{
    const u16 was = *number, tries[] = { 0, 1, (u16)(was / 2), (u16)(was - 1) };
    for (u32 i = 0; i < COUNT_OF(tries); i++) {
        if (tries[i] >= was) continue;
        *number = tries[i];
        if (still_fails(s)) return true;
    }
    *number = was;
    return false;
}

static void seeds_shrink(struct sim_script *s)
{
    bool any = true;
    seeds_tries = SEEDS_TRIES;
    while (any && seeds_tries > 0) {
        any = false;
        for (u32 size = MAX(s->count / 2, 1u); size > 0; size /= 2)
            any = drop_runs(s, size) || any;
        for (u32 i = 0; i < s->count; i++) {
            struct sim_op *op = &s->op[i];
            u16 *columns[] = { &op->abort, &op->count, &op->answer, &op->at };
            if (op->passes != SIM_WAIT) {
                u16 was = op->passes;
                op->passes = SIM_WAIT;
                if (!still_fails(s)) op->passes = was;
            }
            for (u32 k = 0; k < COUNT_OF(columns); k++) any = lessen(s, columns[k]) || any;
        }
    }
}

static void seeds_print(const struct sim_script *s)
{
    static char text[SIM_TEXT_BYTES];
    script_print(s, text, sizeof text);
    fprintf(stderr, "SIM_REPLAY='%s'\n", text);
}

static void add_sum(struct sim_sum *to, const struct sim_sum *from)
{
    u64 *a = (u64 *)to;
    const u64 *b = (const u64 *)from;
    for (u32 i = 0; i < sizeof *to / sizeof *a; i++) a[i] += b[i];
}

/* Seeds [lo, hi) of `turns` turns.  The first that fails is shrunk and printed; its seed, or hi. */
static u64 seeds_run(u64 lo, u64 hi, u32 turns, struct sim_sum *sum)
{
    static struct sim_script script;
    for (u64 seed = lo; seed < hi; seed++) {
        struct sim_sum one;
        script_draw(&script, seed, WORLD_SETUPS, turns);
        if (seeds_hold(&script, true, &one)) {
            add_sum(sum, &one);
            continue;
        }
        fprintf(stderr, "seed %llu fails; shrinking %u rows\n", (ull)seed, script.count);
        seeds_shrink(&script);
        fprintf(stderr, "seed %llu fails in %u turns:\n", (ull)seed, script_turns(&script));
        seeds_print(&script);
        seeds_hold(&script, false, &one);
        return seed;
    }
    return hi;
}

static __attribute__((unused)) void seeds_report(const struct sim_sum *s, f64 spent_s)
{
    const struct { const char *what; u64 count; } row[] = {
        { "passes", s->passes }, { "cached", s->cached }, { "forwarded", s->forwarded },
        { "cancelled", s->cancelled }, { "refused", s->refused },
        { "drafts", s->drafted }, { "right", s->accepted },
        { "ended by memory", s->by_memory }, { "lost in kills", s->lost },
        { "records compared", s->records_checked }, { "aligned", s->aligned },
        { "hidden ids", s->hidden }, { "hidden ids from files", s->hidden_back },
        { "calls", s->calls }, { "ids drawn again", s->sampled },
        { "resumes within the bound", s->bounded }, { "from clean lines", s->clean },
        { "restarts", s->restarts }, { "kills", s->kills }, { "other models", s->switches },
        { "files found", s->files_found }, { "files found again by a model", s->files_back },
        { "file calls to fail", s->io_faults }, { "files spoilt", s->rotten },
        { "long nights", s->days }, { "conversations whole on disk", s->saved },
        { "turns awaited after a restart", s->awaited }, { "from their end", s->kept },
    };
    fprintf(stderr, "turns %llu (%.0f/s);", (ull)s->turns, (f64)s->turns / MAX(spent_s, 1e-3));
    for (u32 i = 0; i < SOURCE_COUNT; i++)
        fprintf(stderr, " %s %llu", turn_source_word[i], (ull)s->source[i]);
    for (u32 i = 0; i < COUNT_OF(row); i++)
        fprintf(stderr, "%s %s %llu", i == 0 ? ";" : ",", row[i].what, (ull)row[i].count);
    fprintf(stderr, "\n");
}

#endif
