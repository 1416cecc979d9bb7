"""Fit a line."""

import argparse


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    weight = 0.0
    for _ in range(parser.parse_args().epochs):
        weight -= 0.1 * (weight - 3.0)


if __name__ == "__main__":
    main()
