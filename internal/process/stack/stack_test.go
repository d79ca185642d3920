package stack_test

import (
	"testing"

	"github.com/certplane/certplane/internal/process/stack"
)

// deep makes nested calls, like those of a request.
//
//go:noinline
func deep(n int) int {
	if n == 0 {
		return 0
	}
	var frame [16]int
	frame[n%16] = deep(n - 1)
	return frame[n%16] + n
}

// BenchmarkGrow compares goroutines that make nested calls, with and without Grow.
func BenchmarkGrow(b *testing.B) {
	for name, grow := range map[string]func() byte{"with": stack.Grow, "without": func() byte { return 0 }} {
		b.Run(name, func(b *testing.B) {
			done := make(chan int)
			for b.Loop() {
				go func() {
					grow()
					done <- deep(90)
				}()
				<-done
			}
		})
	}
}
