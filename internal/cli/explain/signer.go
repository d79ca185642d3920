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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/cli/advice"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/output"
	"github.com/certplane/certplane/internal/cli/shell"
)

var signersResource = v1alpha1.GroupVersion.WithResource("signers")

// SignerExplanation is what is known of a signer, as machines get it.
type SignerExplanation struct {
	// Name is that of the Signer that declares it, if one does.
	Name       string `json:"name,omitempty"`
	SignerName string `json:"signerName"`
	// Ready says whether the signer signs. Of signers without an object it is
	// Unknown where nothing is against it: who runs cannot be asked.
	Ready Result `json:"ready"`
	// Verdict is the explanation in one sentence.
	Verdict string `json:"verdict"`
	// Statements are what KEP-1513 asks every signer to say of itself.
	Statements []Statement         `json:"statements,omitempty"`
	CA         *v1alpha1.CAStatus  `json:"ca,omitempty"`
	FormerCAs  []v1alpha1.CAStatus `json:"formerCAs,omitempty"`
	// Issued and Refused are how many; nil if nobody counts.
	Issued  *int64 `json:"issued,omitempty"`
	Refused *int64 `json:"refused,omitempty"`
	// Waiting are requests without an answer, the oldest first.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Unknown is what cannot be found out from here.
	Unknown []string `json:"unknown,omitempty"`
	Next    []Step   `json:"next,omitempty"`
}

// Statement is one of the things that a signer states.
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
	// State is Pending, or Approved for what only has to be signed.
	State certificates.State `json:"state"`
}

// Signer explains one signer, by its name or by that of its Signer.
func Signer(ctx context.Context, cfg Config) error {
	clients, err := cfg.Connect()
	if err != nil {
		return err
	}
	e, err := findSigner(ctx, clients, cfg)
	if err != nil {
		return err
	}
	for _, find := range []func(context.Context, *Clients, string) ([]Waiting, error){waitingCSRs, waitingPods} {
		found, err := find(ctx, clients, e.SignerName)
		switch {
		case apierrors.IsForbidden(err):
			e.Unknown = append(e.Unknown, err.Error())
		case err != nil:
			return advice.On("looking for requests that wait", err)
		}
		e.Waiting = append(e.Waiting, found...)
	}
	slices.SortStableFunc(e.Waiting, func(a, b Waiting) int { return a.Created.Compare(b.Created) })
	return output.Write(cfg.Stdout, cfg.Output, e, func() string { return e.text(cfg.Now()) })
}

// findSigner finds who signs under a name: those of signers have a slash, those
// of objects have none.
func findSigner(ctx context.Context, clients *Clients, cfg Config) (*SignerExplanation, error) {
	if !strings.Contains(cfg.Name, "/") {
		signer, err := getSigner(ctx, clients, cfg)
		if err != nil {
			return nil, err
		}
		return explainDeclared(signer, cfg), nil
	}
	signer, known, err := declarer(ctx, clients, cfg.Name)
	switch {
	case err != nil:
		return nil, advice.On("looking for the Signer", err)
	case signer != nil:
		return explainDeclared(signer, cfg), nil
	}
	e, err := explainUndeclared(ctx, clients, cfg, known)
	if err != nil {
		return nil, advice.On("finding out about the signer", err)
	}
	return e, nil
}

// explainDeclared is about a signer that an object declares.
func explainDeclared(signer *v1alpha1.Signer, cfg Config) *SignerExplanation {
	e := &SignerExplanation{
		Name: signer.Name, SignerName: signer.Spec.SignerName, Statements: statements(signer.Spec),
		CA: signer.Status.CA, FormerCAs: signer.Status.FormerCAs, Issued: &signer.Status.Issued, Refused: &signer.Status.Refused,
	}
	if e.Ready, e.Verdict = judge(signer); e.Ready != Yes {
		e.Next = []Step{step("What happens with the Signer is in its events:", cfg.kubectl("describe", "signer", signer.Name))}
	}
	return e
}

func getSigner(ctx context.Context, clients *Clients, cfg Config) (*v1alpha1.Signer, error) {
	object, err := clients.Dynamic.Resource(signersResource).Get(ctx, cfg.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && profiled(signersDomain+cfg.Name):
		return nil, exit.WithNext(fmt.Errorf("there is no Signer named %s", cfg.Name),
			"There is a signer of that name that no object declares:", "  "+shell.Line(cfg.certplane("explain", "signer", signersDomain+cfg.Name)...))
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, exit.WithNext(fmt.Errorf("the server has no %s", signersResource.GroupResource()), "Signers without objects are explained by their names, such as kubernetes.io/kubelet-serving.")
	case apierrors.IsNotFound(err):
		return nil, exit.WithNext(fmt.Errorf("there is no Signer named %s", cfg.Name),
			"Signers without objects are explained by their names, such as kubernetes.io/kubelet-serving. To see which objects there are:",
			"  "+shell.Line(cfg.kubectl("get", "signers")...))
	case err != nil:
		return nil, advice.On("reading the Signer", err)
	}
	signer := &v1alpha1.Signer{}
	return signer, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, signer)
}

func judge(signer *v1alpha1.Signer) (Result, string) {
	subject := fmt.Sprintf("%s signs for %s", signer.Name, signer.Spec.SignerName)
	ready := meta.FindStatusCondition(signer.Status.Conditions, v1alpha1.Ready)
	switch {
	case ready == nil, ready.ObservedGeneration < signer.Generation:
		return Open, fmt.Sprintf("%s is to sign for %s, and no controller has looked at it", signer.Name, signer.Spec.SignerName)
	case ready.Status == metav1.ConditionTrue:
		return Yes, subject
	default:
		return No, fmt.Sprintf("%s does not sign for %s: %s (%s)", signer.Name, signer.Spec.SignerName, ready.Message, ready.Reason)
	}
}

func waitingCSRs(ctx context.Context, clients *Clients, signerName string) ([]Waiting, error) {
	list, err := clients.Kubernetes.CertificatesV1().CertificateSigningRequests().List(ctx, forSigner(signerName))
	if err != nil {
		return nil, err
	}
	var waiting []Waiting
	for i := range list.Items {
		c := &list.Items[i]
		if state := certificates.Judge(c).State; state == certificates.Pending || state == certificates.Approved {
			waiting = append(waiting, Waiting{Kind: "CertificateSigningRequest", Name: c.Name, Created: c.CreationTimestamp.Time, State: state})
		}
	}
	return waiting, nil
}

func waitingPods(ctx context.Context, clients *Clients, signerName string) ([]Waiting, error) {
	list, err := listPodRequests(ctx, clients, signerName)
	var waiting []Waiting
	for _, req := range list {
		if judgePod(req).State == certificates.Pending {
			waiting = append(waiting, Waiting{
				Kind: "PodCertificateRequest", Namespace: req.Namespace, Name: req.Name, Created: req.CreationTimestamp.Time, State: certificates.Pending,
			})
		}
	}
	return waiting, err
}

func forSigner(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.signerName", name).String()}
}

// podRequests are PodCertificateRequests in one of the versions that they
// have. In v1beta1 they have all their fields, v1 has the other names.
func podRequests(clients *Clients, version string) dynamic.NamespaceableResourceInterface {
	return clients.Dynamic.Resource(certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests").GroupResource().WithVersion(version))
}

func listPodRequests(ctx context.Context, clients *Clients, signerName string) ([]*podRequest, error) {
	var all []*podRequest
	list, err := podRequests(clients, "v1beta1").List(ctx, forSigner(signerName))
	if apierrors.IsNotFound(err) {
		list, err = podRequests(clients, "v1").List(ctx, forSigner(signerName))
	}
	if apierrors.IsNotFound(err) {
		return nil, nil // an API without requests of pods
	}
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		req := &podRequest{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, req); err != nil {
			return nil, err
		}
		all = append(all, req)
	}
	return all, nil
}

type podRequest = certificatesv1beta1.PodCertificateRequest
