package certpolicy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// fingerprint is that of the key of ordinary requests.
func fingerprint() string { return pki.KeyFingerprint(keyOf(pki.ECDSAP256).Public()) }

func storedRequest(key string) *v1alpha1.StoredRequest {
	return &v1alpha1.StoredRequest{Kind: crs, Namespace: "shop", Name: "web-6", UID: "u6", KeyFingerprint: key}
}

func sameKey(a *asked)  { a.stored.Same = storedRequest(fingerprint()) }
func otherKey(a *asked) { a.stored.Previous = storedRequest("other") }

func reuseFields() []fieldCase {
	refuse := refuses(`{keys: {types: [ECDSAP256], reuse: Refuse}}`, sameKey, "certificate.keys.reuse KeyReused key="+fingerprint())
	refuse.reason = "Refuse"
	refuse.message = "certificate policy p: the key was used by the CertificateRequest shop/web-6, and the policy permits only new keys"
	require := refuses(`{keys: {types: [ECDSAP256], reuse: Require}}`, otherKey, "certificate.keys.reuse KeyChanged key="+fingerprint())
	require.spec += "\nmatch: {kinds: [CertificateSigningRequest, CertificateRequest]}"
	require.reason = "Require"
	require.message = "certificate policy p: the key differs from that in the owner's previous request, the CertificateRequest shop/web-6"
	return []fieldCase{refuse, require}
}

// TestKeyReuse: what the stored requests say about a key.
func TestKeyReuse(t *testing.T) {
	const refuse, require = `Refuse}}`, `Require}}, match: {signers: ["*"], kinds: [CertificateSigningRequest, CertificateRequest]`
	late := func(a *asked) { a.created = now.Add(-2 * time.Minute) }
	unknown := func(a *asked) { a.keysUnknown = true }
	refused, changed := "Deny; p certificate.keys.reuse KeyReused key="+fingerprint(), "Deny; p certificate.keys.reuse KeyChanged key="+fingerprint()
	for _, tc := range []struct {
		reason, reuse string
		kind          v1alpha1.RequestKind
		ask           []func(*asked)
		want          string
	}{
		{"a new key", refuse, csrs, nil, "Approve"},
		{"the key of another request", refuse, csrs, fns(sameKey), refused},
		{"a pod has the key of another request", refuse, pcrs, fns(sameKey), refused},
		{"the owner had another key", refuse, crs, fns(otherKey), "Approve"},
		{"the requests are not known yet", refuse, csrs, fns(unknown), "Wait; p certificate.keys.reuse wants the keys of the stored requests"},
		{"the requests are never known", refuse, csrs, fns(unknown, late), "Deny; p certificate.keys.reuse FactMissing"},
		{"the first request of an owner", require, crs, nil, "Approve"},
		{"the owner had another key", require, crs, fns(otherKey), changed},
		{"the owner has had this key", require, crs, fns(func(a *asked) { a.stored.Previous = storedRequest(fingerprint()) }), "Approve"},
		{"somebody else has had this key", require, crs, fns(sameKey), "Approve"},
		{"the requests are not known yet", require, crs, fns(unknown), "Wait; p certificate.keys.reuse wants the keys of the stored requests"},
		{"all is allowed", `Allow}}`, csrs, fns(sameKey, otherKey, unknown), "Approve"},
	} {
		t.Run(tc.reuse[:7]+" "+tc.reason, func(t *testing.T) {
			spec := `{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {reuse: ` + tc.reuse + `}}`
			if strings.Contains(tc.reuse, "match:") {
				spec = strings.Replace(spec, ` match: {signers: ["*"]},`, "", 1)
			}
			d := decide(t, set(t, map[string]string{"everything": everything, "p": spec}), of(tc.kind).but(tc.ask...))
			if got := brief(d); got != tc.want {
				t.Errorf("%s, want %s\n%s", got, tc.want, d.Message)
			}
		})
	}
}

// TestNeedsRequests: stored requests are looked up only for a policy that reads them.
func TestNeedsRequests(t *testing.T) {
	for spec, want := range map[string]bool{
		`{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {types: [ED25519]}}}`:                               false,
		`{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {reuse: Allow}}}`:                                   false,
		`{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {reuse: Refuse}}}`:                                  true,
		`{effect: Limit, mode: Shadow, match: {signers: ["*"]}, certificate: {keys: {reuse: Refuse}}}`:                    true,
		`{effect: Limit, mode: 'Off', match: {signers: ["*"]}, certificate: {keys: {reuse: Refuse}}}`:                     false,
		`{effect: Limit, match: {signers: [a.io/b], kinds: [CertificateRequest]}, certificate: {keys: {reuse: Require}}}`: true,
	} {
		s := set(t, map[string]string{"p": spec})
		if s.NeedsRequests() != want {
			t.Errorf("%s: %t", spec, !want)
		}
		r := of(csrs).request(t)
		if got := s.Needs(&r).Keys; got != (want && !strings.Contains(spec, "a.io/b")) {
			t.Errorf("%s: a request for another signer needs keys: %t", spec, got)
		}
	}
	for spec, want := range map[string]string{
		`{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {reuse: Require}}}`: "spec.match.kinds",
		`{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {reuse: Never}}}`:   "spec.certificate.keys.reuse",
		`{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {}}}`:               "types, rsa or reuse",
	} {
		if _, errs, _ := certpolicy.Compile(policy(t, "p", spec)); !strings.Contains(errs.ToAggregate().Error(), want) {
			t.Errorf("%s: %v, want %s", spec, errs, want)
		}
	}
}
