"""Jobs of batch systems: Slurm, PBS, LSF."""
