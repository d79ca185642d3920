package rollover

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

const signerName = "kubernetes.io/kube-apiserver-serving"

func content(t *testing.T, roots ...*x509.Certificate) string {
	t.Helper()
	text, warning, err := Content(roots)
	if err != nil || warning != nil {
		t.Fatal(err, warning)
	}
	return text
}

func TestContent(t *testing.T) {
	a, b := root(t, "a", day), root(t, "b", day)
	if content(t, a, b, a) != content(t, b, a) {
		t.Error("the order and repetition of roots matter")
	}
	certs, err := pki.ParseCertificates([]byte(content(t, a, b, a)))
	if err != nil || len(certs) != 2 {
		t.Errorf("it has %d certificates, %v", len(certs), err)
	}
	leaf := &x509.Certificate{Raw: []byte("leaf")}
	text, warning, err := Content([]*x509.Certificate{a, leaf})
	if err != nil || text != content(t, a) || warning == nil {
		t.Errorf("with a leaf: %v, warning %v, %s", err, warning, text)
	}
	for reason, roots := range map[string][]*x509.Certificate{"none": nil, "a leaf": {leaf}} {
		if text, _, err := Content(roots); err == nil || text != "" {
			t.Errorf("%s: %v, %q", reason, err, text)
		}
	}
	huge := &x509.Certificate{Raw: make([]byte, maxSize), IsCA: true, BasicConstraintsValid: true}
	if text, _, err := Content([]*x509.Certificate{huge}); err == nil || text != "" {
		t.Errorf("a huge one: %v", err)
	}
}

// change makes a bundle what a test is about.
type change func(*bundle)

func of(signer, text string, changes ...change) *bundle {
	sum := sha256.Sum256([]byte(text))
	b := &bundle{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(signer, "/", ":") + ":" + hex.EncodeToString(sum[:12])},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text},
	}
	for _, change := range changes {
		change(b)
	}
	return b
}

func managed(b *bundle) { b.Labels = map[string]string{ManagedByLabel: ManagedBy, "other": "label"} }

func named(suffix string) change {
	return func(b *bundle) { b.Name = strings.ReplaceAll(b.Spec.SignerName, "/", ":") + ":" + suffix }
}

func holding(text string) change { return func(b *bundle) { b.Spec.TrustBundle = text } }

func until(at time.Time) change {
	return func(b *bundle) { b.Annotations = map[string]string{UntilAnnotation: at.Format(time.RFC3339)} }
}

// summary describes a plan in words, with the bundles by their content.
func summary(p Plan, words map[string]string) string {
	var all []string
	add := func(verb string, bundles []*bundle) {
		var parts []string
		for _, b := range bundles {
			part := words[b.Spec.TrustBundle]
			if at, ok := b.Annotations[UntilAnnotation]; ok && verb != "delete" {
				part += " until " + at
			}
			parts = append(parts, part)
		}
		slices.Sort(parts)
		for _, part := range parts {
			all = append(all, verb+" "+part)
		}
	}
	add("create", p.Create)
	add("update", p.Update)
	add("delete", p.Delete)
	return strings.Join(all, ", ")
}

func TestBundles(t *testing.T) {
	rootA, rootB := root(t, "a", 365*day), root(t, "b", 365*day)
	a, b, ended, ending := content(t, rootA), content(t, rootB), content(t, root(t, "ended", -day)), content(t, root(t, "ending", day))
	words := map[string]string{a: "a", b: "b", ended: "ended", ending: "ending", "junk": "junk"}
	exclusive := Signer{Name: signerName, Overlap: overlap, Exclusive: true}
	shared := Signer{Name: "kubernetes.io/kubelet-serving", Overlap: overlap}
	untilText := now.Add(overlap).Format(time.RFC3339)

	tests := []struct {
		reason   string
		signer   Signer
		existing func(signer string) []*bundle
		want     string
		again    time.Duration
	}{
		{"none", exclusive, func(string) []*bundle { return nil }, "create a", 0},
		{"only those of others", exclusive, func(string) []*bundle {
			return []*bundle{of("example.com/signer", a), of("", b, named("x"))}
		}, "create a", 0},
		{"as it should be", exclusive, func(s string) []*bundle { return []*bundle{of(s, a)} }, "", 0},
		{"other content", exclusive, func(s string) []*bundle { return []*bundle{of(s, a, holding("junk"))} }, "update a", 0},
		{"one more, oddly named", exclusive, func(s string) []*bundle { return []*bundle{of(s, a), of(s, b, named("x"))} }, "delete b", 0},
		{"other content and one more", exclusive, func(s string) []*bundle {
			return []*bundle{of(s, a, holding("junk")), of(s, b, named("x"))}
		}, "update a, delete b", 0},
		{"only an oddly named one", exclusive, func(s string) []*bundle { return []*bundle{of(s, a, named("x"))} }, "create a, delete a", 0},

		{"old roots stay, from now on", exclusive, func(s string) []*bundle { return []*bundle{of(s, b)} }, "create a, update b until " + untilText, overlap},
		{"old roots stay", exclusive, func(s string) []*bundle { return []*bundle{of(s, a), of(s, b, until(now.Add(day)))} }, "", day},
		{"old roots have had their time", exclusive, func(s string) []*bundle { return []*bundle{of(s, a), of(s, b, until(now))} }, "delete b", 0},
		{"nobody makes them stay longer", exclusive, func(s string) []*bundle { return []*bundle{of(s, a), of(s, b, until(now.Add(overlap+day)))} }, "update b until " + untilText, overlap},
		{"a time that is none", exclusive, func(s string) []*bundle {
			return []*bundle{of(s, a), of(s, b, func(b *bundle) { b.Annotations = map[string]string{UntilAnnotation: "never"} })}
		}, "update b until " + untilText, overlap},
		{"old roots that somebody has changed", exclusive, func(s string) []*bundle {
			return []*bundle{of(s, a), of(s, b, until(now.Add(day)), holding("junk"))}
		}, "delete junk", 0},
		{"old roots that have ended", exclusive, func(s string) []*bundle { return []*bundle{of(s, a), of(s, ended, until(now.Add(day)))} }, "delete ended", 0},
		{"old roots that end before the overlap", exclusive, func(s string) []*bundle { return []*bundle{of(s, a), of(s, ending, until(now.Add(2*day)))} }, "", day},
		{"back to the old roots", exclusive, func(s string) []*bundle { return []*bundle{of(s, a, until(now.Add(day)))} }, "update a", 0},
		{"no overlap", Signer{Name: signerName, Exclusive: true}, func(s string) []*bundle { return []*bundle{of(s, b)} }, "create a, delete b", 0},

		{"shared: none of ours", shared, func(s string) []*bundle { return []*bundle{of(s, b), of(s, a, named("x"))} }, "create a", 0},
		{"shared: as it should be", shared, func(s string) []*bundle { return []*bundle{of(s, a, managed)} }, "", 0},
		{"shared: the same, of another publisher", shared, func(s string) []*bundle { return []*bundle{of(s, a)} }, "update a", 0},
		{"shared: old roots of ours", shared, func(s string) []*bundle { return []*bundle{of(s, a, managed), of(s, b, managed)} }, "update b until " + untilText, overlap},
		{"shared: changed roots of ours", shared, func(s string) []*bundle {
			return []*bundle{of(s, a, managed), of(s, b, managed, holding("junk"))}
		}, "delete junk", 0},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			existing := tc.existing(tc.signer.Name)
			plan := tc.signer.Bundles(a, existing, now)
			if got := summary(plan, words); got != tc.want || plan.Idle() != (tc.want == "") {
				t.Fatalf("plan %q, want %q", got, tc.want)
			}
			if plan.Again.IsZero() != (tc.again == 0) || tc.again != 0 && (plan.Again.Sub(now)-tc.again).Abs() > time.Second {
				t.Errorf("again at %v, want %v after now", plan.Again, tc.again)
			}
			carriedOut := carryOut(plan, existing)
			if rest := tc.signer.Bundles(a, carriedOut, now); !rest.Idle() {
				t.Errorf("once that is done, there is more to do: %s", summary(rest, words))
			}
		})
	}
}

// carryOut applies a plan.
func carryOut(p Plan, existing []*bundle) []*bundle {
	byName := map[string]*bundle{}
	for _, b := range slices.Concat(existing, p.Create, p.Update) {
		byName[b.Name] = b
	}
	for _, b := range p.Delete {
		delete(byName, b.Name)
	}
	var left []*bundle
	for _, b := range byName {
		left = append(left, b)
	}
	return left
}

func TestNewBundle(t *testing.T) {
	text := content(t, root(t, "a", day))
	plan := Signer{Name: signerName}.Bundles(text, nil, now)
	sum := sha256.Sum256([]byte(text))
	got := plan.Create[0]
	if want := fmt.Sprintf("kubernetes.io:kube-apiserver-serving:%x", sum[:12]); got.Name != want {
		t.Errorf("name %s, want %s", got.Name, want)
	}
	if got.Spec.SignerName != signerName || got.Spec.TrustBundle != text || got.Labels[ManagedByLabel] != ManagedBy {
		t.Errorf("bundle %+v", got)
	}
}

// Other labels and annotations of a bundle stay unchanged.
func TestMendKeepsTheRest(t *testing.T) {
	text := content(t, root(t, "a", day))
	stored := of(signerName, text, managed, until(now), holding("junk"))
	stored.Annotations["other"] = "annotation"
	got := Signer{Name: signerName}.Bundles(text, []*bundle{stored}, now).Update[0]
	if got.Labels["other"] != "label" || len(got.Annotations) != 1 || got.Annotations["other"] != "annotation" {
		t.Errorf("labels %v, annotations %v", got.Labels, got.Annotations)
	}
	if stored.Annotations[UntilAnnotation] == "" || stored.Spec.TrustBundle != "junk" {
		t.Error("what the cache has was changed")
	}
}
