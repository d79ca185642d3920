package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/served"
)

// SignerExplanation is the explanation of a signer, for JSON and YAML.
type SignerExplanation struct {
	// Name is the name of the Signer that declares it, if one does.
	Name       string `json:"name,omitempty"`
	SignerName string `json:"signerName"`
	// Ready reports whether the signer signs. For signers without an object it is Unknown
	// unless an obstacle is known: the API does not show which programs run.
	Ready Result `json:"ready"`
	// Verdict is the explanation in one sentence.
	Verdict string `json:"verdict"`
	// Statements are the statements that KEP-1513 requires of every signer.
	Statements []Statement         `json:"statements,omitempty"`
	CA         *v1alpha1.CAStatus  `json:"ca,omitempty"`
	NextCA     *v1alpha1.CAStatus  `json:"nextCA,omitempty"`
	FormerCAs  []v1alpha1.CAStatus `json:"formerCAs,omitempty"`
	// Issued and Refused are the numbers of requests; nil if they are not counted.
	Issued  *int64 `json:"issued,omitempty"`
	Refused *int64 `json:"refused,omitempty"`
	// Waiting are requests without an answer, oldest first.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Unknown lists facts that the caller cannot determine.
	Unknown []string `json:"unknown,omitempty"`
	Next    []Step   `json:"next,omitempty"`
}

// Statement is one statement of a signer.
type Statement struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Waiting is a request without an answer.
type Waiting struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Created   time.Time `json:"created"`
	// State is Pending, or Approved if the request only needs a signature.
	State certificates.State `json:"state"`
}

// Signer explains one signer, by its signer name or by the name of its Signer.
func Signer(ctx context.Context, api Reader, q Query) (*SignerExplanation, error) {
	e, err := findSigner(ctx, api, q)
	if err != nil {
		return nil, err
	}
	for _, find := range []func(context.Context, Reader, string) ([]Waiting, error){waitingCSRs, waitingPods} {
		found, err := find(ctx, api, e.SignerName)
		switch {
		case apierrors.IsForbidden(err):
			e.Unknown = append(e.Unknown, err.Error())
		case err != nil:
			return nil, readError("listing waiting requests", err)
		}
		e.Waiting = append(e.Waiting, found...)
	}
	slices.SortStableFunc(e.Waiting, func(a, b Waiting) int { return a.Created.Compare(b.Created) })
	return e, nil
}

// findSigner finds the signer with a name. Names of signers have a slash, and
// names of objects do not.
func findSigner(ctx context.Context, api Reader, q Query) (*SignerExplanation, error) {
	if !strings.Contains(q.Name, "/") {
		signer, err := getSigner(ctx, api, q)
		if err != nil {
			return nil, err
		}
		return explainDeclared(signer, q), nil
	}
	signer, known, err := declarer(ctx, api, q.Name)
	switch {
	case err != nil:
		return nil, readError("looking for the Signer", err)
	case signer != nil:
		return explainDeclared(signer, q), nil
	}
	e, err := explainUndeclared(ctx, api, q, known)
	return e, readError("finding out about the signer", err)
}

// explainDeclared explains a signer that an object declares.
func explainDeclared(signer *v1alpha1.Signer, q Query) *SignerExplanation {
	e := &SignerExplanation{
		Name: signer.Name, SignerName: signer.Spec.SignerName, Statements: statements(signer.Spec),
		CA: signer.Status.CA, NextCA: signer.Status.NextCA, FormerCAs: signer.Status.FormerCAs, Issued: &signer.Status.Issued, Refused: &signer.Status.Refused,
	}
	if e.Ready, e.Verdict = signerReadiness(signer); e.Ready != Yes {
		e.Next = []Step{step("To see the Signer's events:", q.kubectl("describe", "signer", signer.Name))}
	}
	return e
}

func getSigner(ctx context.Context, api Reader, q Query) (*v1alpha1.Signer, error) {
	const byName = "Signers without objects are explained by their names, such as kubernetes.io/kubelet-serving."
	absent := &NotFoundError{Message: "found no Signer named " + q.Name}
	signer := &v1alpha1.Signer{}
	switch err := api.Get(ctx, client.ObjectKey{Name: q.Name}, signer); {
	case apierrors.IsNotFound(err) && profiled(signersDomain+q.Name):
		absent.Next = []Step{step("A signer without an object has that name:", q.Certplane("explain", "signer", signersDomain+q.Name))}
		return nil, absent
	case served.IsMissing(err):
		return nil, &NotFoundError{Message: "the server has no signers." + v1alpha1.GroupName, KindMissing: true, Next: []Step{{Text: byName}}}
	case apierrors.IsNotFound(err):
		absent.Next = []Step{step(byName+" To list the objects:", q.kubectl("get", "signers"))}
		return nil, absent
	default:
		return signer, readError("reading the Signer", err)
	}
}

// signerReadiness reports whether a declared signer signs, with a sentence.
func signerReadiness(signer *v1alpha1.Signer) (Result, string) {
	subject := fmt.Sprintf("%s signs for %s", signer.Name, signer.Spec.SignerName)
	ready := meta.FindStatusCondition(signer.Status.Conditions, v1alpha1.Ready)
	switch {
	case ready == nil, ready.ObservedGeneration < signer.Generation:
		return Open, fmt.Sprintf("%s will sign for %s once a controller has processed it", signer.Name, signer.Spec.SignerName)
	case ready.Status == metav1.ConditionTrue:
		return Yes, subject
	default:
		return No, fmt.Sprintf("%s does not sign for %s: %s (%s)", signer.Name, signer.Spec.SignerName, ready.Message, ready.Reason)
	}
}

func waitingCSRs(ctx context.Context, api Reader, signerName string) ([]Waiting, error) {
	all := &certificatesv1.CertificateSigningRequestList{}
	err := api.List(ctx, all, forSigner(signerName))
	var waiting []Waiting
	for i := range all.Items {
		f := &facts{csr: &all.Items[i]}
		waiting = append(waiting, waitingRequest("CertificateSigningRequest", f.csr, f.progress())...)
	}
	return waiting, err
}

func waitingPods(ctx context.Context, api Reader, signerName string) ([]Waiting, error) {
	all, err := listPodRequests(ctx, api, signerName)
	var waiting []Waiting
	for i := range all {
		waiting = append(waiting, waitingRequest("PodCertificateRequest", &all[i], podProgress(&all[i]))...)
	}
	return waiting, err
}

// waitingRequest returns a request if it has no answer.
func waitingRequest(kind string, object client.Object, p progress) []Waiting {
	if !p.open() {
		return nil
	}
	return []Waiting{{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Created: object.GetCreationTimestamp().Time, State: p.state}}
}

func forSigner(name string) client.ListOption { return client.MatchingFields{"spec.signerName": name} }

type podRequest = certificatesv1beta1.PodCertificateRequest

// podRequestVersions are the versions of PodCertificateRequests, the most complete first.
// The fields read here have the same names in v1.
var podRequestVersions = []schema.GroupVersion{certificatesv1beta1.SchemeGroupVersion, certificatesv1.SchemeGroupVersion}

// inPodRequestVersion calls read with the first version that is served.
func inPodRequestVersion(read func(schema.GroupVersion) error) (err error) {
	for _, version := range podRequestVersions {
		if err = read(version); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

func getPodRequest(ctx context.Context, api Reader, key client.ObjectKey) (*podRequest, error) {
	found, req := &unstructured.Unstructured{}, &podRequest{}
	err := inPodRequestVersion(func(version schema.GroupVersion) error {
		found.SetGroupVersionKind(version.WithKind("PodCertificateRequest"))
		return api.Get(ctx, key, found)
	})
	if err != nil {
		return nil, err
	}
	return req, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, req)
}

func listPodRequests(ctx context.Context, api Reader, signerName string) ([]podRequest, error) {
	list := &unstructured.UnstructuredList{}
	err := inPodRequestVersion(func(version schema.GroupVersion) error {
		list.SetGroupVersionKind(version.WithKind("PodCertificateRequestList"))
		return api.List(ctx, list, forSigner(signerName))
	})
	if apierrors.IsNotFound(err) {
		return nil, nil // the API does not serve PodCertificateRequests
	}
	all := make([]podRequest, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, err
}
