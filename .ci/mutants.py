"""Put errors into the package at random, one at a time, and look which of them the tests notice.

    pip install -e ".[tests,mutants]"
    python .ci/mutants.py --n 30 --seed 0 --path skrbm/units

A *site* is a place where an error can be made: a number, an operator, a condition, a loop, a
decorator. Sites are drawn from all files alike, so that a file gets its share by how many it has.
At each one error is made, a *mutant* of the file, and the test files that are the likeliest to
notice it run, all but slow tests. Where it survives these, the other files run too, as by the
command `pytest`; --rest 0 leaves them out. What survives both is a gap in the tests, unless it is
equivalent: no result can tell it from the code as it is. Equivalent mutants are listed in
equivalent_mutants.txt, and left out. One that timed out was not noticed by then.

Everything happens in a temporary copy. Run it where the tests pass: what fails on a mutant is run
again without it, and a test that fails there too ends the sample.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from itertools import count
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
EQUIVALENT = ROOT / ".ci" / "equivalent_mutants.txt"
LIKELY = re.compile(  # errors that somebody could make; a shift of a float fails at once
    r"""core/(
    ReplaceBinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(Add|Sub|Mul|Div|Pow)
    | ReplaceBinaryOperator_(BitAnd_BitOr|BitOr_BitAnd|LShift_RShift|RShift_LShift)
    | ReplaceComparisonOperator_(Eq|NotEq|Lt|LtE|Gt|GtE)_(Eq|NotEq|Lt|LtE|Gt|GtE)
    | ReplaceComparisonOperator_(Is_IsNot|IsNot_Is)
    | ReplaceUnaryOperator_Delete_\w+ | Replace(True|False|And|Or|Break|Continue)With\w+
    | AddNot | NumberReplacer | RemoveDecorator | ZeroIterationForLoop)""",
    re.VERBOSE,
)
OPERATORS = [get_operator(name)() for name in operator_names() if LIKELY.fullmatch(name)]


def sites(source):
    """Return the errors that can be made at each place: {(start, end): [(operator, number)]}."""
    nodes, found = list(ast_nodes(get_ast(source))), defaultdict(list)
    for operator in OPERATORS:
        number = count()
        for node in nodes:
            for position in operator.mutation_positions(node):
                found[position].append((operator, next(number)))
    return found


def compiles(source):
    """Whether the source is Python: a star of a signature is no product."""
    try:
        compile(source, "<mutant>", "exec")
    except SyntaxError:
        return False
    return True


def bare(line):
    """Return a line without any space, to compare it by."""
    return "".join(line.split())


def known_equivalents():
    """Return {file: [pattern of mutated lines]}; the list has a reason beside each of these."""
    text = "\n".join(line for line in EQUIVALENT.read_text().splitlines() if line[:1] != "#")
    found = defaultdict(list)
    for path, line, _ in (entry.splitlines() for entry in re.split(r"\n\n+", text.strip())):
        start, dots, _ = bare(line).partition("...")
        found[path].append(re.compile(re.escape(start) + (".*" if dots else "")))
    return found


def mutants(paths, seed):
    """Yield a mutant of each site in random order: (path, row, old line, new line, source)."""
    generator, skipped = random.Random(seed), known_equivalents()
    sources = {path: (ROOT / path).read_text() for path in paths}
    drawn = [(path, *site) for path, text in sources.items() for site in sites(text).items()]
    generator.shuffle(drawn)
    for path, ((row, _), _), errors in drawn:
        operator, number = generator.choice(errors)
        mutated = mutate_code(sources[path], operator, number)
        old, new = (text.splitlines()[row - 1].strip() for text in (sources[path], mutated))
        # Without this check of zip, which finds errors that are elsewhere, nothing changes.
        equivalent = old.replace("strict=True", "strict=False") == new
        equivalent |= any(pattern.fullmatch(bare(new)) for pattern in skipped[path])
        if compiles(mutated) and not equivalent:
            yield path, row, old, new, mutated


def defined_names(source, row):
    """Return the names of all functions and classes, and of those around a line."""
    names, around = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[:2] != "__":
            names.add(node.name)
            if node.lineno <= row <= node.end_lineno:
                around.add(node.name)
    return names, around


def tests_of(path, row):
    """Return all test files, those first that are the likeliest to notice an error at a line.

    First the file of the same name, and then those that mention what the file defines: the fewer
    test files mention it the more that counts, and twice what the line is part of, or in tests of
    the same folder.
    """
    names, around = defined_names((ROOT / path).read_text(), row)
    words = {file: set(re.findall(r"\w+", file.read_text())) for file in TESTS.rglob("test_*.py")}
    scores = dict.fromkeys(words, 0.0)
    for name in names:
        mentioned = [file for file in words if name in words[file]]
        for file in mentioned:
            scores[file] += (2 if name in around else 1) / len(mentioned)
    for file in scores:
        scores[file] *= 2 if file.parent.name == Path(path).parent.name else 1
        scores[file] += 1e6 * (file.stem == "test_" + Path(path).stem.strip("_"))
    order = sorted(scores, key=lambda file: (-scores[file], file))
    return [str(file.relative_to(ROOT)) for file in order]


def copy_tree(to):
    """Copy the files that git knows of, or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def run_tests(tree, files, limit, *options):
    """Return pytest's exit status, or None where it has taken more than ``limit`` seconds."""
    # Without byte code: that of a file which changes twice in a second may be stale.
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--maxfail=1", "-q", *options, *files],
        **{"cwd": tree, "env": environment, "start_new_session": True},
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL},
    )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:  # with its own processes, and if this one is interrupted too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def judge(tree, path, mutated, stages):
    """Return what becomes of a mutant: the name of the stage that kills it, SURVIVED or timed out.

    Each stage has a name, test files, seconds for them, and options of pytest. The next one runs
    where a mutant survives it.
    """
    original, verdict = (tree / path).read_text(), "SURVIVED"
    for name, files, limit, *options in stages:
        (tree / path).write_text(mutated)
        status = run_tests(tree, files, limit, *options)
        (tree / path).write_text(original)
        if status == 1 and run_tests(tree, files, limit, *options, "--last-failed"):
            raise SystemExit(f"a test of {' '.join(files)} fails without a mutant too")
        if status != 0:
            verdict = "timed out" if status is None else name
            break
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=30, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--path", default="skrbm", help="a file, or a folder of files")
    parser.add_argument("--files", type=int, default=5, help="likeliest test files for a mutant")
    parser.add_argument("--limit", type=float, default=180, help="seconds for these")
    parser.add_argument("--rest", type=float, default=1800, help="seconds for all other files")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # cleans up on its way
    path = ROOT / args.path
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    sample = mutants([str(file.relative_to(ROOT)) for file in paths], args.seed)
    verdicts = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        if run_tests(tree, [], None, "--collect-only"):
            raise SystemExit("pytest cannot collect the tests")
        for _, (path, row, old, new, mutated) in zip(range(args.n), sample, strict=False):
            begin = time.perf_counter()
            files = tests_of(path, row)
            stages = [("killed", files[: args.files], args.limit, "-m", "not slow")]
            if args.rest and files[args.files :]:
                stages.append(("by others", files[args.files :], args.rest))
            verdict = judge(tree, path, mutated, stages)
            verdicts[verdict] += 1
            seconds = time.perf_counter() - begin
            print(f"{verdict:9} {seconds:4.0f} s  {path}:{row}  {old}  ->  {new}", flush=True)
    print(", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common()))
    likeliest, n = verdicts["killed"], verdicts.total()
    print(f"killed by the likeliest files: {likeliest} of {n}", end="; ")
    print(f"by any: {likeliest + verdicts['by others']} of {n}")


if __name__ == "__main__":
    main()
