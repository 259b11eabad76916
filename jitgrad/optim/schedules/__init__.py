"""Learning-rate schedules, a file for each kind; `jitgrad.optim.lr_scheduler` has them all."""
