//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package certificates

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodConditions(t *testing.T) {
	for _, tt := range []struct {
		reason string
		edit   podEdit
		want   []string
	}{
		{"no change", func(*podRequest) {}, nil},
		{"denied", outcome("Denied"), nil},
		{"failed", outcome("Failed"), nil},
		{"an unknown type", outcome("Approved"), []string{"Unsupported value: status.conditions.[0].type"}},
		{"an unknown type that is false", falsely("Approved"), []string{"Unsupported value: status.conditions.[0].type"}},
		{"denied and failed", outcome("Denied", "Failed"), []string{"Invalid value: status.conditions.[1].type"}},
		{"issued and denied", outcome("Issued", "Denied"), []string{"Invalid value: status.conditions.[1].type"}},
		{"all three", outcome("Issued", "Denied", "Failed"),
			[]string{"Invalid value: status.conditions.[1].type", "Invalid value: status.conditions.[2].type"}},
		{"the same twice", outcome("Denied", "Denied"),
			[]string{"Invalid value: status.conditions.[1].type", "Duplicate value: status.conditions[1]"}},
		{"issued is false", falsely("Issued"), []string{"Unsupported value: status.conditions.[0].status"}},
		{"denied is false", falsely("Denied"), []string{"Unsupported value: status.conditions.[0].status"}},
		{"failed is false", falsely("Failed"), []string{"Unsupported value: status.conditions.[0].status"}},
		{"no reason", func(r *podRequest) { outcome("Denied")(r); r.Status.Conditions[0].Reason = "" }, []string{"Required value: status.conditions[0].reason"}},
		{"a reason with a blank", func(r *podRequest) { outcome("Denied")(r); r.Status.Conditions[0].Reason = "a b" }, []string{"Invalid value: status.conditions[0].reason"}},
		{"a long message", func(r *podRequest) {
			outcome("Denied")(r)
			r.Status.Conditions[0].Message = strings.Repeat("x", 32769)
		},
			[]string{"Too long: status.conditions[0].message"}},
		{"no time, which nobody fills in", func(r *podRequest) { outcome("Denied")(r); r.Status.Conditions[0].LastTransitionTime = metav1.Time{} },
			[]string{"Required value: status.conditions[0].lastTransitionTime"}},
		{"a generation below zero", func(r *podRequest) { outcome("Denied")(r); r.Status.Conditions[0].ObservedGeneration = -1 },
			[]string{"Invalid value: status.conditions[0].observedGeneration"}},
		{"a chain without a condition", func(r *podRequest) { r.Status.CertificateChain = "x" }, []string{"Invalid value: status"}},
		{"a time without a condition", func(r *podRequest) { r.Status.NotBefore = &metav1.Time{Time: podNow} }, []string{"Invalid value: status"}},
		{"denied, with a chain", func(r *podRequest) { outcome("Denied")(r); r.Status.CertificateChain = "x" }, []string{"Invalid value: status"}},
		{"failed, with a time", func(r *podRequest) { outcome("Failed")(r); r.Status.BeginRefreshAt = &metav1.Time{Time: podNow} }, []string{"Invalid value: status"}},
		{"metadata comes first", func(r *podRequest) { outcome("Approved")(r); r.UID = "other" }, []string{"Invalid value: metadata.uid"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			old := newPodRequest(t)
			wantKinds(t, ValidatePodRequestStatusUpdate(editPod(old, tt.edit), old, podNow), tt.want...)
		})
	}
}

func falsely(kind string) podEdit {
	return func(r *podRequest) { outcome(kind)(r); r.Status.Conditions[0].Status = metav1.ConditionFalse }
}

// Once a request has an outcome, it keeps it.
func TestPodOutcomeIsFinal(t *testing.T) {
	root, key := newAuthority(t, "root", nil), podKey(t, "ED25519")
	pending := newPodRequestFor(t, key)
	states := map[string]*podRequest{
		"pending": pending,
		"denied":  editPod(pending, outcome("Denied")),
		"failed":  editPod(pending, outcome("Failed")),
		"issued":  editPod(pending, issue(root.leaf(t, key.Public()))),
		"again":   editPod(pending, issue(root.leaf(t, key.Public()))),
	}
	for from, old := range states {
		for to, request := range states {
			var want []string
			if from != "pending" && from != to {
				want = []string{"Invalid value: status"}
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				wantKinds(t, ValidatePodRequestStatusUpdate(request, old, podNow), want...)
			})
		}
	}
}

func TestIssuance(t *testing.T) {
	key := podKey(t, "ECDSAP256")
	root := newAuthority(t, "root", nil)
	intermediate := newAuthority(t, "intermediate", root)
	good := root.leaf(t, key.Public())
	leafWith := func(edit func(*x509.Certificate)) podEdit { return issue(root.leaf(t, key.Public(), edit)) }
	span := func(from, lifetime time.Duration) podEdit {
		return leafWith(func(c *x509.Certificate) { c.NotBefore = podNow.Add(from); c.NotAfter = c.NotBefore.Add(lifetime) })
	}
	with := func(edits ...podEdit) podEdit {
		return func(r *podRequest) {
			for _, edit := range append([]podEdit{issue(good)}, edits...) {
				edit(r)
			}
		}
	}
	chain := func(text string) podEdit { return func(r *podRequest) { r.Status.CertificateChain = text } }
	refresh := func(at time.Time) podEdit {
		return func(r *podRequest) { r.Status.BeginRefreshAt = &metav1.Time{Time: at} }
	}
	const ofChain = "Invalid value: status.certificateChain"
	for _, tt := range []struct {
		reason string
		edit   podEdit
		want   []string
	}{
		{"signed by the root", issue(good), nil},
		{"signed by an intermediate", issue(intermediate.leaf(t, key.Public()), intermediate.cert), nil},
		{"with the root", issue(intermediate.leaf(t, key.Public()), intermediate.cert, root.cert), nil},
		{"text around the blocks, and headers", with(chain("text\n" + strings.Replace(pemOf(good), "-----\n", "-----\nA: b\n\n", 1) + "text")), nil},
		{"certificates that have nothing to do with it", with(chain(pemOf(good, newAuthority(t, "other", nil).cert))), nil},

		{"more than 100 KiB", with(chain(strings.Repeat("x", 102401))), []string{"Too long: status.certificateChain"}},
		{"exactly 100 KiB", with(chain(pemOf(good) + strings.Repeat("x", 102400-len(pemOf(good))))), nil},
		{"no chain", with(chain("")), []string{ofChain}},
		{"no PEM", with(chain("text")), []string{ofChain}},
		{"another label", with(chain(strings.ReplaceAll(pemOf(good), "CERTIFICATE", "X509"))), []string{ofChain}},
		{"no certificate inside", with(chain(string(block("CERTIFICATE", []byte("x"))))), []string{ofChain}},
		{"two certificates inside", with(chain(string(block("CERTIFICATE", append(append([]byte{}, good.Raw...), good.Raw...))))), []string{ofChain}},
		{"another label after the leaf", with(chain(pemOf(good) + string(block("KEY", root.cert.Raw)))), []string{ofChain}},
		{"no certificate after the leaf", with(chain(pemOf(good) + string(block("CERTIFICATE", []byte("x"))))), []string{ofChain}},

		{"an empty DNS name", leafWith(dns("")), []string{ofChain}},
		{"two dots", leafWith(dns("a..b")), []string{ofChain}},
		{"a dot in front", leafWith(dns(".a.b")), []string{ofChain}},
		{"a dot at the end", leafWith(dns("a.b.")), []string{ofChain}},
		{"a wildcard", leafWith(dns("*.a.b")), nil},
		{"a bad email address", leafWith(func(c *x509.Certificate) { c.EmailAddresses = []string{"nobody"} }), []string{ofChain}},
		{"a good email address", leafWith(func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} }), nil},
		{"all that is wrong with names and times", func(r *podRequest) {
			leafWith(func(c *x509.Certificate) { c.DNSNames = []string{"a.", "b."}; c.EmailAddresses = []string{"c"} })(r)
			r.Status.NotAfter = nil
		}, []string{ofChain, ofChain, ofChain, "Required value: status.notAfter"}},

		{"for another key", issue(root.leaf(t, podKey(t, "ECDSAP256").Public())), []string{ofChain}},
		{"no times", with(func(r *podRequest) { r.Status.NotBefore, r.Status.NotAfter, r.Status.BeginRefreshAt = nil, nil, nil }),
			[]string{"Required value: status.notBefore", "Required value: status.notAfter", "Required value: status.beginRefreshAt"}},
		{"notBefore of another certificate", with(func(r *podRequest) { r.Status.NotBefore = &metav1.Time{Time: podNow} }), []string{"Invalid value: status.notBefore"}},
		{"notAfter of another certificate", with(func(r *podRequest) { r.Status.NotAfter = &metav1.Time{Time: podNow} }), []string{"Invalid value: status.notAfter"}},
		{"5 minutes old", span(-5*time.Minute, time.Hour), []string{"Invalid value: status.notBefore"}},
		{"a second younger", span(-5*time.Minute+time.Second, time.Hour), nil},
		{"begins in 5 minutes", span(5*time.Minute, time.Hour), []string{"Invalid value: status.notBefore"}},
		{"begins a second sooner", span(5*time.Minute-time.Second, time.Hour), nil},
		{"50 minutes", span(0, 50*time.Minute), []string{ofChain}},
		{"as long as it may be", span(0, 24*time.Hour), nil},
		{"25 hours", span(0, 25*time.Hour), []string{ofChain}},
		{"refreshed after 5 minutes", with(refresh(good.NotBefore.Add(5 * time.Minute))), []string{"Invalid value: status.beginRefreshAt"}},
		{"refreshed after 10 minutes", with(refresh(good.NotBefore.Add(10 * time.Minute))), nil},
		{"refreshed 5 minutes before the end", with(refresh(good.NotAfter.Add(-5 * time.Minute))), []string{"Invalid value: status.beginRefreshAt"}},
		{"refreshed 10 minutes before the end", with(refresh(good.NotAfter.Add(-10 * time.Minute))), nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			for form, old := range map[string]*podRequest{"stub": newPodRequestFor(t, key), "legacy": newPodRequest(t, bareKey(t, key))} {
				t.Run(form, func(t *testing.T) {
					wantKinds(t, ValidatePodRequestStatusUpdate(editPod(old, tt.edit), old, podNow), tt.want...)
				})
			}
		})
	}
}

func dns(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = []string{name} }
}

// A stored key that can no longer be parsed is an error of the request, not of
// the chain.
func TestIssuanceForABrokenRequest(t *testing.T) {
	key := podKey(t, "ED25519")
	leaf := newAuthority(t, "root", nil).leaf(t, key.Public())
	for path, edit := range map[string]podEdit{
		"spec.stubPKCS10Request": func(r *podRequest) { r.Spec.StubPKCS10Request = []byte("x") },
		"spec.pkixPublicKey":     func(r *podRequest) { bareKey(t, key)(r); r.Spec.PKIXPublicKey = []byte("x") },
	} {
		old := newPodRequestFor(t, key, edit)
		wantKinds(t, ValidatePodRequestStatusUpdate(editPod(old, issue(leaf)), old, podNow), "Invalid value: "+path)
	}
}

func TestPodChainWarnings(t *testing.T) {
	key := podKey(t, "ED25519").Public()
	root, other := newAuthority(t, "root", nil), newAuthority(t, "root", nil)
	leaf := root.leaf(t, key)
	for _, tt := range []struct {
		reason string
		chain  string
		want   []string
	}{
		{"as it should be", pemOf(leaf, root.cert), nil},
		{"nothing to compare with", pemOf(leaf), nil},
		{"another issuer of the same name", pemOf(leaf, other.cert), []string{"not issued by"}},
		{"a CA", pemOf(root.cert), []string{"is a CA"}},
		{"half a block", pemOf(leaf) + pemOf(root.cert)[:200], []string{"cannot be read"}},
		{"not a chain", "x", nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got := PodChainWarnings(tt.chain)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("%q does not say %q", got[i], want)
				}
			}
		})
	}
}
