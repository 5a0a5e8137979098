"""What waits: heads of branches and new files, read for triggers and sensors without the pipeline's code."""
