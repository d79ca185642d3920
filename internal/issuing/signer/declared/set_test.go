package declared

import (
	"errors"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

var pods = []v1alpha1.RequestKind{v1alpha1.PodCertificateRequests}

func TestSet(t *testing.T) {
	var set Set
	told := 0
	cancel := set.Changes.Subscribe(func(struct{}) { told++ })
	for _, step := range []struct {
		reason string
		do     func()
		names  string
		told   bool
	}{
		{"a signer comes", func() { set.Put(&Signer{Object: "one", Name: "a/1", Requests: pods, Unready: errors.New("no CA")}) }, "a/1=one ", true},
		{"it still waits for its CA", func() { set.Put(&Signer{Object: "one", Name: "a/1", Requests: pods, Unready: errors.New("no CA yet")}) }, "a/1=one ", false},
		{"it has one", func() { set.Put(&Signer{Object: "one", Name: "a/1", Requests: pods}) }, "a/1=one ", true},
		{"another comes", func() { set.Put(&Signer{Object: "two", Name: "a/2"}) }, "a/1=one a/2=two ", true},
		{"it takes over the first one's name", func() { set.Put(&Signer{Object: "two", Name: "a/1"}) }, "a/1=two ", true},
		{"what has nothing is removed", func() { set.Remove("one") }, "a/1=two ", false},
		{"it goes", func() { set.Remove("two") }, "", true},
	} {
		told = 0
		step.do()
		names := ""
		for _, signer := range set.All() {
			names += signer.Name + "=" + signer.Object + " "
		}
		if names != step.names || told > 0 != step.told {
			t.Errorf("%s: %q, told %d times", step.reason, names, told)
		}
	}
	cancel()
	told = 0
	set.Put(&Signer{Object: "one", Name: "a/1"})
	if told != 0 {
		t.Error("told after the end")
	}
}

func TestCounts(t *testing.T) {
	var set Set
	set.Put(&Signer{Object: "one", UID: "u", Name: "a/1", Counts: set.Counts("u")})
	set.Count("a/1", true, time.Now())
	set.Count("a/1", false, time.Now())
	set.Count("a/2", true, time.Now()) // of no object
	counts := set.Counts("u")
	written := counts.Get()
	if written.Issued != 1 || written.Refused != 1 || written.Last.IsZero() {
		t.Errorf("counted %+v", written)
	}
	counts.Issued(time.Now())
	counts.Written(written)
	if left := counts.Get(); left.Issued != 1 || left.Refused != 0 {
		t.Errorf("left %+v", left)
	}
}
