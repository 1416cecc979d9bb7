"""Makes the program's clocks and timeouts stop while the debugger has stopped a process of the job."""
