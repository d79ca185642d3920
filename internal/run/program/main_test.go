package program

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// A flag that is defined twice breaks every verb.
func TestCommandTree(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	if verbs := newCommand(streams).Commands(); len(verbs) == 0 {
		t.Error("there are no verbs")
	}
}
