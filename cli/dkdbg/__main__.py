"""Run `dkdbg` as `python -m dkdbg`."""

import sys

from dkdbg.main import main

sys.exit(main())
