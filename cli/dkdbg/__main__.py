"""`python -m dkdbg` is `dkdbg`."""

import sys

from dkdbg.main import main

sys.exit(main())
