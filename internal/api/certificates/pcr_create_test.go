//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package certificates

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
)

// The keys that pods can have, in both forms.
func TestPodKeys(t *testing.T) {
	for _, kind := range []string{"ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521", "RSA3072", "RSA4096"} {
		key := podKey(t, kind)
		if name, err := PodKeyType(key.Public()); name != kind || err != nil {
			t.Errorf("%s is called %q, %v", kind, name, err)
		}
		for form, request := range map[string]*podRequest{"stub": newPodRequestFor(t, key), "legacy": newPodRequest(t, bareKey(t, key))} {
			if errs := ValidatePodRequest(request); len(errs) > 0 {
				t.Errorf("%s, %s: %v", kind, form, errs.ToAggregate())
			}
			if got, err := PodRequestKey(&request.Spec); err != nil || !pki.SameKey(key.Public(), got) {
				t.Errorf("%s, %s: the key is %v, %v", kind, form, got, err)
			}
		}
	}
}

func TestPodRequestRefused(t *testing.T) {
	key, other := podKey(t, "ED25519"), podKey(t, "ED25519")
	long := strings.Repeat("a", 129)
	big := make([]byte, 10241)
	for _, tt := range []struct {
		reason string
		edit   podEdit
		want   []string
	}{
		{"no signer", func(r *podRequest) { r.Spec.SignerName = "" }, []string{"Required value: spec.signerName"}},
		{"a signer without a domain", func(r *podRequest) { r.Spec.SignerName = "signer" }, []string{"Invalid value: spec.signerName"}},
		{"no names", func(r *podRequest) { r.Spec.PodName, r.Spec.ServiceAccountName, r.Spec.NodeName = "", "", "" },
			[]string{"Invalid value: spec.podName", "Invalid value: spec.serviceAccountName", "Invalid value: spec.nodeName"}},
		{"names that are none", func(r *podRequest) { r.Spec.PodName, r.Spec.ServiceAccountName, r.Spec.NodeName = "P", "a_b", "n/m" },
			[]string{"Invalid value: spec.podName", "Invalid value: spec.serviceAccountName", "Invalid value: spec.nodeName"}},
		{"no UIDs", func(r *podRequest) { r.Spec.PodUID, r.Spec.ServiceAccountUID, r.Spec.NodeUID = "", "", "" },
			[]string{"Invalid value: spec.podUID", "Invalid value: spec.serviceAccountUID", "Invalid value: spec.nodeUID"}},
		{"a UID of 129 bytes", func(r *podRequest) { r.Spec.NodeUID = types.UID(long) }, []string{"Too long: spec.nodeUID"}},
		{"no lifetime, which defaulting would have set", func(r *podRequest) { r.Spec.MaxExpirationSeconds = nil; r.Spec.StubPKCS10Request = nil },
			[]string{"Required value: spec.maxExpirationSeconds"}},
		{"a second less than an hour", lasts(3599), []string{"Invalid value: spec.maxExpirationSeconds"}},
		{"a second more than 91 days", lasts(7862401), []string{"Invalid value: spec.maxExpirationSeconds"}},
		{"a signer of Kubernetes gives a day", func(r *podRequest) { r.Spec.SignerName = "kubernetes.io/x"; lasts(86401)(r) },
			[]string{"Invalid value: spec.maxExpirationSeconds"}},
		{"below the domain of Kubernetes too", func(r *podRequest) { r.Spec.SignerName = "a.kubernetes.io/x"; lasts(86401)(r) },
			[]string{"Invalid value: spec.maxExpirationSeconds"}},
		{"k8s.io is no domain of signers", func(r *podRequest) { r.Spec.SignerName = "x.k8s.io/x"; lasts(86401)(r) }, nil},
		{"an hour", lasts(3600), nil},
		{"91 days", lasts(7862400), nil},

		{"both forms", func(r *podRequest) {
			stub := r.Spec.StubPKCS10Request
			bareKey(t, key)(r)
			r.Spec.StubPKCS10Request = stub
		}, []string{"Invalid value: spec"}},
		{"no form", func(r *podRequest) { r.Spec.StubPKCS10Request = nil }, []string{"Invalid value: spec"}},
		{"a key without a proof", func(r *podRequest) { bareKey(t, key)(r); r.Spec.ProofOfPossession = nil }, []string{"Invalid value: spec"}},
		{"a proof without a key", func(r *podRequest) { bareKey(t, key)(r); r.Spec.PKIXPublicKey = nil }, []string{"Invalid value: spec"}},
		{"a stub and a proof", func(r *podRequest) { r.Spec.ProofOfPossession = []byte("x") }, []string{"Invalid value: spec"}},

		{"a stub of 10,241 bytes", func(r *podRequest) { r.Spec.StubPKCS10Request = big }, []string{"Too long: spec.stubPKCS10Request"}},
		{"a stub in PEM", func(r *podRequest) {
			r.Spec.StubPKCS10Request = block("CERTIFICATE REQUEST", r.Spec.StubPKCS10Request)
		}, []string{"Invalid value: spec.stubPKCS10Request"}},
		{"bytes after the stub", func(r *podRequest) { r.Spec.StubPKCS10Request = append(r.Spec.StubPKCS10Request, 0) },
			[]string{"Invalid value: spec.stubPKCS10Request"}},
		{"a stub that is not signed with its key", func(r *podRequest) { r.Spec.StubPKCS10Request[len(r.Spec.StubPKCS10Request)-1] ^= 1 },
			[]string{"Invalid value: spec.stubPKCS10Request"}},
		{"P-224", func(r *podRequest) { r.Spec.StubPKCS10Request = stubOf(t, podKey(t, "ECDSAP224")) }, []string{"Invalid value: spec.stubPKCS10Request"}},
		{"RSA with 2,048 bits", func(r *podRequest) { r.Spec.StubPKCS10Request = stubOf(t, podKey(t, "RSA2048")) }, []string{"Invalid value: spec.stubPKCS10Request"}},

		{"a key of 10,241 bytes", func(r *podRequest) { bareKey(t, key)(r); r.Spec.PKIXPublicKey = big }, []string{"Too long: spec.pkixPublicKey"}},
		{"a proof of 10,241 bytes", func(r *podRequest) { bareKey(t, key)(r); r.Spec.ProofOfPossession = big }, []string{"Too long: spec.proofOfPossession"}},
		{"a key that is none", func(r *podRequest) { bareKey(t, key)(r); r.Spec.PKIXPublicKey = []byte("x") }, []string{"Invalid value: spec.pkixPublicKey"}},
		{"P-224 in the legacy form", bareKey(t, podKey(t, "ECDSAP224")), []string{"Invalid value: spec.pkixPublicKey"}},
		{"RSA with 2,048 bits in the legacy form", bareKey(t, podKey(t, "RSA2048")), []string{"Invalid value: spec.pkixPublicKey"}},
		{"a proof of another pod", func(r *podRequest) { bareKey(t, key)(r); r.Spec.ProofOfPossession = prove(t, key, "other") },
			[]string{"Invalid value: spec.proofOfPossession"}},
		{"a proof by another key", func(r *podRequest) { bareKey(t, key)(r); r.Spec.ProofOfPossession = prove(t, other, "pod-uid") },
			[]string{"Invalid value: spec.proofOfPossession"}},

		{"a name that is none", func(r *podRequest) { r.Name = "A" }, []string{"Invalid value: metadata.name"}},
		{"no namespace", func(r *podRequest) { r.Namespace = "" }, []string{"Required value: metadata.namespace"}},
	} {
		t.Run(tt.reason, func(t *testing.T) { wantKinds(t, ValidatePodRequest(newPodRequest(t, tt.edit)), tt.want...) })
	}
}

// An error names the type of an invalid key, for the author of the pod.
func TestPodKeyIsNamed(t *testing.T) {
	for kind, want := range map[string]string{"ECDSAP224": "P-224", "RSA2048": "2048"} {
		request := newPodRequest(t, func(r *podRequest) { r.Spec.StubPKCS10Request = stubOf(t, podKey(t, kind)) })
		if err := ValidatePodRequest(request).ToAggregate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not name %s", kind, err, want)
		}
	}
}

func TestUserAnnotations(t *testing.T) {
	const path = "spec.unverifiedUserAnnotations"
	for _, tt := range []struct {
		reason      string
		annotations map[string]string
		want        []string
	}{
		{"none", nil, nil},
		{"a domain and a name", map[string]string{"example.com/key": "any value\n"}, nil},
		{"capital letters", map[string]string{"Example.com/Key": ""}, nil},
		{"an empty key", map[string]string{"": "x"}, []string{"Required value: " + path}},
		{"two slashes", map[string]string{"example.com/a/b": "x"}, []string{"Invalid value: " + path}},
		{"no domain", map[string]string{"key": "x"}, []string{"Invalid value: " + path}},
		{"a domain of 254 bytes", map[string]string{strings.Repeat("a.", 127) + "/key": "x"}, []string{"Invalid value: " + path, "Invalid value: " + path}},
		{"256 KiB", map[string]string{"example.com/a": strings.Repeat("x", 262144-13)}, nil},
		{"a byte more", map[string]string{"example.com/a": strings.Repeat("x", 262144-12)}, []string{"Too long: " + path}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			wantKinds(t, ValidatePodRequest(newPodRequest(t, func(r *podRequest) { r.Spec.UnverifiedUserAnnotations = tt.annotations })), tt.want...)
		})
	}
}

func TestPodRequestUpdate(t *testing.T) {
	old := newPodRequest(t)
	for _, tt := range []struct {
		reason string
		edit   podEdit
		want   []string
	}{
		{"nothing", func(*podRequest) {}, nil},
		{"metadata", func(r *podRequest) {
			r.Labels, r.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		}, nil},
		{"a label that is none", func(r *podRequest) { r.Labels = map[string]string{"a": "b c"} }, []string{"Invalid value: metadata.labels"}},
		{"the signer", func(r *podRequest) { r.Spec.SignerName = "example.com/other" }, []string{"Invalid value: spec"}},
		{"the lifetime", lasts(3600), []string{"Invalid value: spec"}},
		{"the key", func(r *podRequest) { r.Spec.StubPKCS10Request = stubOf(t, podKey(t, "ED25519")) }, []string{"Invalid value: spec"}},
		{"the annotations", func(r *podRequest) { r.Spec.UnverifiedUserAnnotations = map[string]string{"a.b/c": "d"} }, []string{"Invalid value: spec"}},
	} {
		t.Run(tt.reason, func(t *testing.T) { wantKinds(t, ValidatePodRequestUpdate(editPod(old, tt.edit), old), tt.want...) })
	}
}
