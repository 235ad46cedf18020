"""The feedback beside tuned baselines, the paper's rule and the best fixed setting in hindsight.

    python benchmarks/feedback.py --data-dir DATA [--seeds 3] [--runs runs/feedback]
        [--only softmax time] [--drawn 20] [--list] [--baselines] [--again dynamite-feedback]
        [--no-hindsight] [--tune fedavgm]

The cases are those of ``cases.py``, or some drawn at random (``drawn.py``). No job has a learning
rate. Finished runs are kept, so that the command can be repeated: ``--baselines`` runs what does
not depend on the feedback, and ``--again`` measures the feedback anew. It prints a table in
Markdown.
"""

from baselines import OURS, PAPER, parser_with_baselines, print_table
from cases import HEADINGS, cases
from drawn import drawn


def main() -> None:
    parser = parser_with_baselines(__doc__, "runs/feedback")
    parser.add_argument(
        "--drawn", type=int, default=0, help="so many cases drawn at random instead"
    )
    arguments = parser.parse_args()
    known = drawn(arguments.drawn) if arguments.drawn else cases()
    print_table(arguments, known, HEADINGS, [PAPER, OURS])


if __name__ == "__main__":
    main()
