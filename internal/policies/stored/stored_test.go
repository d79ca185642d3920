package stored

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func use(uid string, key byte) keyuse.Use {
	return keyuse.Use{Kind: v1alpha1.CertificateSigningRequests, Name: "csr-" + uid, UID: uid, Created: now, Key: keyuse.Digest{key}, Owner: keyuse.Digest{9}}
}

// full returns an index in which all kinds are listed.
func full(uses ...keyuse.Use) *Index {
	x := New()
	for _, k := range requestkind.All {
		x.replace(k.Name, nil)
	}
	for _, u := range uses {
		x.put(u)
	}
	return x
}

func sameOf(t *testing.T, x *Index, of keyuse.Use) string {
	t.Helper()
	found, known := x.Find(t.Context(), of, true)
	if !known {
		return "?"
	}
	if found.Same == nil {
		return ""
	}
	return found.Same.Name
}

func TestFind(t *testing.T) {
	a, b := use("a", 1), use("b", 1)
	x := full(a, b)
	if got := sameOf(t, x, a); got != "" {
		t.Errorf("a comes after %q", got)
	}
	if got := sameOf(t, x, b); got != "csr-a" {
		t.Errorf("b comes after %q", got)
	}
	x.remove("a")
	x.remove("a")
	if got := sameOf(t, x, b); got != "" {
		t.Errorf("b comes after %q, which was deleted", got)
	}
	if len(x.byKey) != 1 || len(x.byOwner) != 1 || len(x.uses) != 1 {
		t.Errorf("the index keeps what was deleted: %v", x)
	}
	x.remove("b")
	if len(x.byKey)+len(x.byOwner)+len(x.uses) != 0 {
		t.Errorf("the index keeps what was deleted: %v", x)
	}
}

// Before all kinds are listed, and before the request itself is seen, it is not
// known which requests come before it.
func TestNotKnown(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	x := New()
	x.put(use("a", 1))
	if _, known := x.Find(ended, use("a", 1), true); known {
		t.Error("known before the kinds are listed")
	}
	for _, k := range requestkind.All[1:] {
		x.replace(k.Name, nil)
	}
	if _, known := x.Find(ended, use("b", 1), false); known {
		t.Error("known before all kinds are listed")
	}
	x.replace(requestkind.All[0].Name, nil, "a")
	if _, known := x.Find(ended, use("b", 1), true); known {
		t.Error("known before the request is seen")
	}
	if found, known := x.Find(ended, use("b", 1), false); !known || found.Same.Name != "csr-a" {
		t.Errorf("a request that is not stored comes after %v, %t", found.Same, known)
	}
}

// Find waits for a request that is on its way.
func TestFindWaits(t *testing.T) {
	x := full()
	found := make(chan bool)
	go func() {
		_, known := x.Find(context.Background(), use("a", 1), true)
		found <- known
	}()
	x.put(use("b", 2))
	x.put(use("a", 1))
	if !<-found {
		t.Error("not known")
	}
}

// Of two requests that are decided about at once, the first one that claims the key
// has it, even if the other was created first.
func TestClaim(t *testing.T) {
	a, b := use("a", 1), use("b", 1)
	x := full(b)
	seenByB, _ := x.Find(t.Context(), b, true)
	x.put(a)
	seenByA, _ := x.Find(t.Context(), a, true)
	if x.Claim(b, seenByB) {
		t.Error("b claims the key though a has come before it")
	}
	for range 2 {
		if !x.Claim(a, seenByA) {
			t.Error("a cannot claim the key")
		}
	}

	x = full(b)
	if !x.Claim(b, seenByB) {
		t.Fatal("b cannot claim the key")
	}
	x.put(a)
	if got := sameOf(t, x, a); got != "csr-b" {
		t.Errorf("a comes after %q", got)
	}
	if x.Claim(a, seenByA) {
		t.Error("a claims what b has claimed")
	}
	x.state("b", keyuse.State{}) // a change that does not matter
	x.replace(b.Kind, nil, "a", "b")
	if got := sameOf(t, x, a); got != "csr-b" {
		t.Errorf("after a change of b, a comes after %q", got)
	}
	x.state("b", keyuse.State{Refused: true})
	if got := sameOf(t, x, a); got != "" {
		t.Errorf("b has failed, and a comes after %q", got)
	}
}

// What a watch says about requests is in the index.
func TestSink(t *testing.T) {
	x := full()
	s := &sink{x, requestkind.All[0]}
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a", "uid": "a", "creationTimestamp": now.Format(time.RFC3339)},
		"spec":     map[string]any{"signerName": "a.io/b", "request": "bm8="},
	}}
	if err := s.Add(object); err != nil {
		t.Fatal(err)
	}
	of := x.uses["a"]
	if of == nil || of.Key != (keyuse.Digest{}) || !of.Created.Equal(now) || len(x.byKey) != 0 {
		t.Fatalf("the index has %+v", of)
	}
	changed := object.DeepCopy()
	changed.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Denied", "status": "True"}}}
	if err := s.Update(changed); err != nil || !of.Refused {
		t.Errorf("it is not refused: %v", err)
	}
	if err := s.Replace([]any{changed}, ""); err != nil || x.uses["a"] != of {
		t.Errorf("another list changes what is known: %v", err)
	}
	if err := s.Delete(changed); err != nil || len(x.uses) != 0 {
		t.Errorf("it is not gone: %v", err)
	}
	broken := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "b", "uid": "b"}, "spec": "none"}}
	if err := s.Replace([]any{broken}, ""); err != nil || x.uses["b"] == nil {
		t.Errorf("a request that cannot be read is not known: %v", err)
	}
	if _, known := x.Find(t.Context(), keyuse.Use{UID: "b", Created: metav1.Now().Time}, true); !known {
		t.Error("its decision never ends its wait")
	}
}
