"""The port that an editor attaches to: who may come in."""
