"""What everything stands on: checks of arguments, the codec of saved files, compiled kernels, frames, drawing."""
