package certificates

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"sigs.k8s.io/randfill"
)

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func TestSchemeKnowsWhatIsServed(t *testing.T) {
	scheme := newScheme(t)
	want := []schema.GroupVersion{certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion, certificatesv1alpha1.SchemeGroupVersion}
	if diff := cmp.Diff(want, scheme.PrioritizedVersionsForGroup(certificatesv1.GroupName)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// Every kind is unchanged after a round trip through every version, in JSON and
// protobuf.
func TestRoundTrip(t *testing.T) {
	roundtrip.RoundTripProtobufTestForScheme(t, newScheme(t), fillCSR)
}

func TestRoundTripOfServedTypes(t *testing.T) {
	scheme := newScheme(t)
	codecs := serializer.NewCodecFactory(scheme)
	filler := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, fillCSR), rand.NewSource(rand.Int63()), codecs)
	roundtrip.RoundTripExternalTypes(t, scheme, codecs, filler, nil)
}

// fillCSR avoids values that v1beta1 defaults: absent usages and empty
// condition statuses.
func fillCSR(serializer.CodecFactory) []any {
	return []any{
		func(spec *certificatesv1.CertificateSigningRequestSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.Usages = append(spec.Usages, certificatesv1.UsageAny)
		},
		func(condition *certificatesv1.CertificateSigningRequestCondition, c randfill.Continue) {
			c.FillNoCustom(condition)
			condition.Status = corev1.ConditionUnknown
		},
		func(spec *certificatesv1beta1.CertificateSigningRequestSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.Usages = append(spec.Usages, certificatesv1beta1.UsageAny)
			signerName := c.String(20)
			spec.SignerName = &signerName
		},
		func(condition *certificatesv1beta1.CertificateSigningRequestCondition, c randfill.Continue) {
			c.FillNoCustom(condition)
			condition.Status = corev1.ConditionUnknown
		},
		// Fields that v1 cannot represent have their own test.
		func(spec *certificatesv1beta1.PodCertificateRequestSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			//lint:ignore SA1019 nodes of Kubernetes 1.35 know no other fields
			spec.PKIXPublicKey, spec.ProofOfPossession = nil, nil
			defaultPodExpiration(&spec.MaxExpirationSeconds)
		},
		func(spec *certificatesv1.PodCertificateRequestSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			defaultPodExpiration(&spec.MaxExpirationSeconds)
		},
	}
}

// Nil and empty lists stay different on the way to the hub: defaulting,
// validation and admission distinguish them.
func TestConversionKeepsNilAndEmptyApart(t *testing.T) {
	signerName := "example.com/signer"
	for _, tc := range []struct {
		reason string
		in     certificatesv1beta1.CertificateSigningRequest
		want   certificatesv1.CertificateSigningRequest
	}{
		{"an absent signer is an empty name",
			certificatesv1beta1.CertificateSigningRequest{}, certificatesv1.CertificateSigningRequest{}},
		{"nothing is not empty", certificatesv1beta1.CertificateSigningRequest{
			Spec: certificatesv1beta1.CertificateSigningRequestSpec{
				SignerName: &signerName,
				Usages:     []certificatesv1beta1.KeyUsage{},
				Groups:     []string{},
				Extra:      map[string]certificatesv1beta1.ExtraValue{"a": nil, "b": {}},
			},
			Status: certificatesv1beta1.CertificateSigningRequestStatus{
				Conditions:  []certificatesv1beta1.CertificateSigningRequestCondition{},
				Certificate: []byte{},
			},
		}, certificatesv1.CertificateSigningRequest{
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: signerName,
				Usages:     []certificatesv1.KeyUsage{},
				Groups:     []string{},
				Extra:      map[string]certificatesv1.ExtraValue{"a": nil, "b": {}},
			},
			Status: certificatesv1.CertificateSigningRequestStatus{
				Conditions:  []certificatesv1.CertificateSigningRequestCondition{},
				Certificate: []byte{},
			},
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := newScheme(t).ConvertToVersion(&tc.in, internalVersion)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("hub (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConversionAlwaysNamesTheSigner(t *testing.T) {
	got, err := newScheme(t).ConvertToVersion(&certificatesv1.CertificateSigningRequest{}, certificatesv1beta1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if name := got.(*certificatesv1beta1.CertificateSigningRequest).Spec.SignerName; name == nil || *name != "" {
		t.Errorf("signerName is %v, want a pointer to an empty string", name)
	}
}

func TestFieldLabels(t *testing.T) {
	scheme := newScheme(t)
	for _, version := range []schema.GroupVersion{certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion} {
		kind := version.WithKind("CertificateSigningRequest")
		for _, label := range []string{"metadata.name", "spec.signerName"} {
			gotLabel, gotValue, err := scheme.ConvertFieldLabel(kind, label, "x")
			if err != nil || gotLabel != label || gotValue != "x" {
				t.Errorf("%s %s: got %q=%q, %v", version.Version, label, gotLabel, gotValue, err)
			}
		}
		for _, label := range []string{"spec.username", "metadata.namespace", "status.certificate", ""} {
			_, _, err := scheme.ConvertFieldLabel(kind, label, "x")
			if want := "field label not supported: " + label; err == nil || err.Error() != want {
				t.Errorf("%s %s: got %v, want %q", version.Version, label, err, want)
			}
		}
	}
}

func TestSelectableFields(t *testing.T) {
	fields := SelectableFields(newCSR(t))
	if fields.Get("metadata.name") != "test" || fields.Get("spec.signerName") != "example.com/signer" || len(fields) != 2 {
		t.Errorf("got %v", fields)
	}
}

// The server takes its deprecation warning from these words.
func TestV1beta1IsDeprecated(t *testing.T) {
	obj := &certificatesv1beta1.CertificateSigningRequest{}
	obj.GetObjectKind().SetGroupVersionKind(certificatesv1beta1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
	if !deprecation.IsDeprecated(obj, 1, 37) {
		t.Error("v1beta1 is not deprecated")
	}
	want := "certificates.k8s.io/v1beta1 CertificateSigningRequest is deprecated in v1.19+, unavailable in v1.22+; use certificates.k8s.io/v1 CertificateSigningRequest"
	if diff := cmp.Diff(want, deprecation.WarningMessage(obj)); diff != "" {
		t.Errorf("warning (-want +got):\n%s", diff)
	}
	v1 := &certificatesv1.CertificateSigningRequest{}
	if deprecation.IsDeprecated(v1, 1, 37) {
		t.Error("v1 is deprecated")
	}
}

// The hub has no defaults of any version.
func TestV1HasNoDefaults(t *testing.T) {
	obj := newCSR(t, usages(), signer(""), func(c *csr) { c.Status.Conditions = []condition{{Type: "A"}} })
	want := obj.DeepCopy()
	newScheme(t).Default(obj)
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Errorf("defaulting changed the object (-want +got):\n%s", diff)
	}
}
