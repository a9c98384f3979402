"""Where data come from and go to: sources, sinks, engines, snapshots, the workspace."""
