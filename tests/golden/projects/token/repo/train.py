"""Trains."""


def main():
    print("step")


if __name__ == "__main__":
    main()
