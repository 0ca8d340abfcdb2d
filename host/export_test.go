package host

// Problem is the body of every error.
type Problem = problem
