package protection_test

import (
	"crypto/ed25519"
	"testing"

	"github.com/certplane/certplane/internal/policy/protection"
)

// FuzzAnnotations: whatever clients send as proposals and as agreed, what is not
// stored already is refused unless the server has sealed it for them.
func FuzzAnnotations(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	keys := []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}
	open := func(text string) (protection.Record, error) { return protection.Open(keys, text) }
	seal := func(r protection.Record) (string, error) { return protection.Seal(key, r) }
	old := stored("ca", protected)
	first := &protection.Write{Kind: protection.Policies, Old: old, New: sent(old, weaker), Protected: []protection.Policy{ca}, User: alice, Now: now, Open: open, Seal: seal}
	m, err := first.Mutate()
	if err != nil || m.Proposals == "" {
		f.Fatal(err, m)
	}
	old.Proposals = m.Proposals
	for _, text := range []string{"", "[]", "null", "{}", `["v1"]`, `["v1.a.b.c"]`, m.Proposals, m.Proposals + "x"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, proposals, agreed string) {
		changed := sent(old, protected)
		changed.Proposals, changed.Agreed = proposals, agreed
		w := &protection.Write{Kind: protection.Policies, Old: old, New: changed, Protected: []protection.Policy{ca}, User: bob, Now: now, Open: open, Seal: seal}
		if w.Validate() == nil && (proposals != old.Proposals || agreed != "") {
			t.Errorf("%q and %q are stored", proposals, agreed)
		}
		changed.Spec = spec(weaker)
		if w.Validate() == nil {
			t.Errorf("bob's write counts with %q", agreed)
		}
	})
}
