"""How far places are reached from this machine: one shared connection, and connections that outlive its cuts."""
