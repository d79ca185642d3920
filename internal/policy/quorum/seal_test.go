package quorum_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// sealKey returns a key that is always the same.
func sealKey(name string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte(name[:1]), ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

var (
	present, former = sealKey("present"), sealKey("former")

	aliceRecord = quorum.Record{
		Kind: "CertificateSigningRequest", Name: "regional-ca", UID: "u1", Digest: "sha256:00", User: "alice", UserUID: "7",
		Groups: []string{"pki"}, Extra: map[string][]string{"login": {"a"}}, Time: now,
		Policies: []quorum.RecordedPolicy{{Name: "intermediate-ca", Digest: "sha256:11"}}, N: 1,
	}
)

func sealed(t testing.TB, key ed25519.PrivateKey, r quorum.Record) string {
	t.Helper()
	text, err := quorum.Seal(key, r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSeal(t *testing.T) {
	keys := []ed25519.PublicKey{public(present), public(former)}
	for _, key := range []ed25519.PrivateKey{present, former} {
		text := sealed(t, key, aliceRecord)
		if !strings.HasPrefix(text, "v1."+quorum.KeyID(public(key))+".") {
			t.Errorf("%s", text)
		}
		got, err := quorum.Open(keys, text)
		if diff := cmp.Diff(aliceRecord, got); diff != "" || err != nil {
			t.Errorf("%v: %s", err, diff)
		}
	}
	ecdsa, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := quorum.Seal(ecdsa, aliceRecord); err == nil {
		t.Error("an ECDSA key seals")
	}
	huge := aliceRecord
	huge.Groups = []string{strings.Repeat("g", 32<<10)}
	if _, err := quorum.Seal(present, huge); err == nil {
		t.Error("a record is sealed that nobody opens")
	}
}

// Records that others have written must stay valid.
func TestSealFormIsStable(t *testing.T) {
	const want = "v1.81ebc23c5a9dd613."
	text := sealed(t, present, aliceRecord)
	parts := strings.Split(text, ".")
	data, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	const wantJSON = `{"kind":"CertificateSigningRequest","name":"regional-ca","uid":"u1","digest":"sha256:00","user":"alice","userUID":"7",` +
		`"groups":["pki"],"extra":{"login":["a"]},"time":"2026-11-22T09:00:00Z","policies":[{"name":"intermediate-ca","digest":"sha256:11"}],"n":1}`
	if string(data) != wantJSON || !strings.HasPrefix(text, want) {
		t.Errorf("%s\n%s", text, data)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil || !ed25519.Verify(public(present), []byte("certplane.dev/approval\x00"+strings.Join(parts[:3], ".")), signature) {
		t.Errorf("signature %x, %v", signature, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	text := sealed(t, present, aliceRecord)
	parts := strings.Split(text, ".")
	join := func(i int, part string) string {
		changed := append([]string(nil), parts...)
		changed[i] = part
		return strings.Join(changed, ".")
	}
	signed := func(data string) string {
		text := strings.Join(parts[:2], ".") + "." + base64.RawURLEncoding.EncodeToString([]byte(data))
		return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(present, []byte("certplane.dev/approval\x00"+text)))
	}
	otherDomain := strings.Join(parts[:3], ".")
	mallory := aliceRecord
	mallory.User = "mallory"
	tests := []struct{ reason, text, want string }{
		{"nothing", "", quorum.ErrVersion.Error()},
		{"another version", join(0, "v2"), quorum.ErrVersion.Error()},
		{"no parts", "v1", "not a sealed record"},
		{"a part more", text + ".", "not a sealed record"},
		{"an unknown key", sealed(t, sealKey("x"), aliceRecord), `unknown key "fec8eb52a189539c"`},
		{"the id of another key", join(1, quorum.KeyID(public(former))), "does not verify"},
		{"another record", join(2, strings.Split(sealed(t, former, mallory), ".")[2]), "does not verify"},
		{"no signature", join(3, ""), "does not verify"},
		{"a signature that is no base64", join(3, "*"), "does not verify"},
		{"padding", text + "=", "does not verify"},
		{"signed for something else", otherDomain + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(present, []byte(otherDomain))), "does not verify"},
		{"an unknown field", signed(`{"n":1,"onlyWith":"bob"}`), `unknown field "onlyWith"`},
		{"two records", signed(`{"n":1}{"n":2}`), "something follows it"},
		{"too long", text + strings.Repeat("A", 32<<10), "more than 32768 bytes"},
	}
	for _, tc := range tests {
		record, err := quorum.Open([]ed25519.PublicKey{public(present), public(former)}, tc.text)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %+v, %v", tc.reason, record, err)
		}
	}
	if _, err := quorum.Open(nil, join(0, "v2")); !errors.Is(err, quorum.ErrVersion) {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	text := sealed(f, present, aliceRecord)
	f.Add(text)
	f.Add("v1..." + text)
	f.Add("v2." + text[3:])
	f.Add(text[:len(text)-1] + "B")
	keys := []ed25519.PublicKey{public(present)}
	f.Fuzz(func(t *testing.T, changed string) {
		record, err := quorum.Open(keys, changed)
		if err == nil && (changed != text || record.User != "alice") {
			t.Fatalf("%q opens: %+v", changed, record)
		}
		condition := quorum.Condition{Type: quorum.VoteType(1), Message: changed}
		open := func(text string) (quorum.Record, error) { return quorum.Open(keys, text) }
		if votes := quorum.Votes([]quorum.Condition{condition}, regionalCA, open); len(votes) > 0 {
			t.Fatalf("%q is a vote: %+v", changed, votes)
		}
	})
}

func TestDigest(t *testing.T) {
	// Votes that are stored must stay valid.
	const want = "sha256:927273bb26fac5713876e42596eed30a9ac24c73882c67081a705c04f8fd33ff"
	base := quorum.Digest(regionalCA)
	if base != want {
		t.Errorf("%s, want %s", base, want)
	}
	for name, digest := range digestsOfOtherContent() {
		if digest == base {
			t.Errorf("another %s has the same digest", name)
		}
	}
	reordered := regionalCA
	reordered.Usages = []string{"digital signature", "cert sign"}
	reordered.Labels = map[string]string{"team": "a"}
	reordered.ObjectAnnotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	reordered.Created = now
	if quorum.Digest(reordered) != base {
		t.Error("what does not matter changes the digest")
	}
	if fmt.Sprint(regionalCA.Usages) != "[cert sign digital signature]" {
		t.Error("the request was modified")
	}
}

func digestsOfOtherContent() map[string]string {
	digests := map[string]string{}
	for name, change := range map[string]func(r *request.Request){
		"kind":     func(r *request.Request) { r.Kind = "CertificateRequest" },
		"signer":   func(r *request.Request) { r.SignerName = "example.com/other" },
		"bytes":    func(r *request.Request) { r.PEM = []byte("other") },
		"usages":   func(r *request.Request) { r.Usages = []string{"cert sign"} },
		"duration": func(r *request.Request) { r.Duration = new(2 * time.Hour) },
		"no time":  func(r *request.Request) { r.Duration = nil },
		"isCA":     func(r *request.Request) { r.IsCA = true },
		"annotation": func(r *request.Request) {
			r.ObjectAnnotations = map[string]string{"experimental.cert-manager.io/request-is-ca": "true"}
		},
		"lifetime": func(r *request.Request) {
			r.ObjectAnnotations = map[string]string{"experimental.cert-manager.io/request-duration": "9h"}
		},
	} {
		r := regionalCA
		change(&r)
		digests[name] = quorum.Digest(r)
	}
	return digests
}
