package certificates

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Each version can represent all fields of the others, in objects and in lists.
func TestTrustBundlesConvertBothWays(t *testing.T) {
	scheme := newScheme(t)
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(scheme))
	for _, kind := range []string{"ClusterTrustBundle", "ClusterTrustBundleList"} {
		for _, from := range servedVersions {
			for _, to := range servedVersions {
				for range 20 {
					want, err := scheme.New(from.WithKind(kind))
					if err != nil {
						t.Fatal(err)
					}
					filler.Fill(want)
					want.GetObjectKind().SetGroupVersionKind(from.WithKind(kind))
					got := want.DeepCopyObject()
					for _, version := range []string{internalVersion.Version, to.Version, internalVersion.Version, from.Version} {
						if got, err = scheme.UnsafeConvertToVersion(got, certificatesv1.SchemeGroupVersion.WithKind(kind).GroupKind().WithVersion(version).GroupVersion()); err != nil {
							t.Fatal(err)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("%s from %s to %s and back (-want +got):\n%s", kind, from.Version, to.Version, diff)
					}
				}
			}
		}
	}
}

func TestTrustBundleFieldLabels(t *testing.T) {
	scheme := newScheme(t)
	for _, version := range servedVersions {
		kind := version.WithKind("ClusterTrustBundle")
		for label, known := range map[string]bool{
			"metadata.name": true, "spec.signerName": true, "spec.trustBundle": false, "metadata.namespace": false,
		} {
			if _, _, err := scheme.ConvertFieldLabel(kind, label, "x"); (err == nil) != known {
				t.Errorf("%s %s: %v", version.Version, label, err)
			}
		}
	}
	bundle := &certificatesv1.ClusterTrustBundle{Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "example.com/signer"}}
	if got := TrustBundleFields(bundle).String(); got != "spec.signerName=example.com/signer" {
		t.Errorf("fields are %s", got)
	}
}
