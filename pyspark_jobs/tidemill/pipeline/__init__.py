"""What users write (`stream`), what it is compiled to (`job`), how a reference such as `module:p` is found (`load`)."""
