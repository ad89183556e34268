"""The trigger: owns shards, decides for them turn by turn, and fires what is due."""
