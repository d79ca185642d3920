package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// written is a write of which the API's log tells.
type written struct {
	user, verb, resource, namespace, name string
	at                                    time.Time
}

// begin begins a phase, in which a program works: writes count from now on.
func (d *dropIn) begin(t *testing.T, who string) {
	t.Helper()
	d.who, d.metrics = who, nil
	info, err := os.Stat(d.log)
	if err != nil {
		t.Fatal(err)
	}
	d.began = info.Size()
}

// writes returns the writes of service accounts in this phase, also those that changed
// nothing.
func (d *dropIn) writes(t *testing.T) (all []written) {
	t.Helper()
	data, err := os.ReadFile(d.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data[d.began:]) {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource, Namespace, Name string }

			RequestReceivedTimestamp time.Time
		}
		if json.Unmarshal(line, &event) != nil {
			continue // it is being written
		}
		w := written{event.User.Username, event.Verb, event.ObjectRef.Resource, event.ObjectRef.Namespace, event.ObjectRef.Name, event.RequestReceivedTimestamp}
		if event.ObjectRef.Subresource != "" {
			w.resource += "/" + event.ObjectRef.Subresource
		}
		if strings.HasPrefix(w.user, "system:serviceaccount:") {
			all = append(all, w)
		}
	}
	return all
}

// untouched fails the test if certplane wrote what users had of some kinds in this phase, also
// if that changed nothing. It logs how often each kind was written.
func (d *dropIn) untouched(t *testing.T, kinds ...string) {
	t.Helper()
	counts := map[string]int{}
	for _, w := range d.writes(t) {
		counts[w.verb+" "+w.resource]++
		kind, _, _ := strings.Cut(w.resource, "/")
		if strings.HasPrefix(w.user, "system:serviceaccount:certplane-system:") && slices.Contains(kinds, kind) && d.ofUsers(w.namespace, w.name) {
			t.Errorf("%s wrote %s %s (%s)", w.user, w.resource, w.name, w.verb)
		}
	}
	t.Logf("%s has taken over, and its writes are %v", d.who, counts)
}
