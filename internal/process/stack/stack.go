// Package stack makes room for nested calls.
package stack

// room is about what a request of the API needs.
const room = 20 << 10

// Grow makes the stack of its goroutine large. The runtime doubles a stack each time it is too
// small, and then adjusts each frame on it. A goroutine that is about to make many nested calls
// grows its stack while it has few frames, which costs a quarter (BenchmarkGrow).
//
//go:noinline
func Grow() byte {
	var space [room]byte
	return last(&space)
}

//go:noinline
func last(space *[room]byte) byte { return space[room-1] }
