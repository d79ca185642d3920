package notify_test

import (
	"slices"
	"testing"

	"github.com/certplane/certplane/internal/process/notify"
)

func TestList(t *testing.T) {
	var list notify.List[int]
	list.Tell(0) // without subscribers
	var heard []int
	cancel := list.Subscribe(func(n int) { heard = append(heard, n) })
	list.Subscribe(func(n int) {
		heard = append(heard, -n)
		if n == 2 {
			cancel() // from within a call
		}
	})
	for n := range 3 {
		list.Tell(n + 1)
	}
	if want := []int{1, -1, 2, -2, -3}; !slices.Equal(heard, want) {
		t.Errorf("subscribers heard %v, want %v", heard, want)
	}
}
