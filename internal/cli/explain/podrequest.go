package explain

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/cli/advice"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/output"
	"github.com/certplane/certplane/internal/cli/page"
	"github.com/certplane/certplane/internal/cli/shell"
)

// PodExplanation is what is known of a pod's request, as machines get it.
type PodExplanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is how far the request has come.
	State certificates.State `json:"state"`
	// Verdict is the explanation in one sentence.
	Verdict string     `json:"verdict"`
	Request PodRequest `json:"request"`
	// Checks are the parts that decide, in the order in which they do.
	Checks      []Check      `json:"checks"`
	Certificate *Certificate `json:"certificate,omitempty"`
	// RefreshAt is when the next certificate is due.
	RefreshAt *time.Time `json:"refreshAt,omitempty"`
	// Events are what controllers told of the request, the latest last.
	Events []Event `json:"events,omitempty"`
	Next   []Step  `json:"next,omitempty"`
}

// PodRequest is what was asked for, and for which pod.
type PodRequest struct {
	SignerName        string            `json:"signerName"`
	Created           time.Time         `json:"created"`
	Pod               string            `json:"pod"`
	ServiceAccount    string            `json:"serviceAccount"`
	Node              string            `json:"node"`
	Key               string            `json:"key,omitempty"`
	ExpirationSeconds *int32            `json:"expirationSeconds,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// podVerdict is a pod's request's state and the condition that says why it is
// so, if one does.
type podVerdict struct {
	State     certificates.State
	Condition metav1.Condition
}

func judgePod(req *podRequest) podVerdict {
	states := map[string]certificates.State{
		certificatesv1beta1.PodCertificateRequestConditionTypeIssued: certificates.Issued,
		certificatesv1beta1.PodCertificateRequestConditionTypeDenied: certificates.Denied,
		certificatesv1beta1.PodCertificateRequestConditionTypeFailed: certificates.Failed,
	}
	for _, c := range req.Status.Conditions {
		if state, ok := states[c.Type]; ok && c.Status == metav1.ConditionTrue {
			return podVerdict{state, c}
		}
	}
	return podVerdict{State: certificates.Pending}
}

// PodCertificateRequest explains one request of a pod.
func PodCertificateRequest(ctx context.Context, cfg Config) error {
	clients, err := cfg.Connect()
	if err != nil {
		return err
	}
	req, err := getPodRequest(ctx, clients, cfg)
	if err != nil {
		return err
	}
	g := &podGatherer{clients: clients, req: req}
	if err := g.gather(ctx); err != nil {
		return advice.On("finding out about the request", err)
	}
	f := &facts{}
	if err := f.listEventsOf(ctx, clients.Kubernetes, req.Namespace, req.UID); err != nil {
		return advice.On("finding out about the request", err)
	}
	e := g.explain(cfg)
	e.Events = describeEvents(f.events)
	return output.Write(cfg.Stdout, cfg.Output, e, func() string { return e.text(cfg.Now()) })
}

func getPodRequest(ctx context.Context, clients *Clients, cfg Config) (*podRequest, error) {
	namespace, name := cfg.Namespace, cfg.Name
	object, err := podRequests(clients, "v1beta1").Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = podRequests(clients, "v1").Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, exit.WithNext(fmt.Errorf("there is no pod certificate request named %s in the namespace %s", name, namespace),
			"A request is deleted 15 minutes after its creation. To see which there are:", "  "+shell.Line(cfg.kubectl("get", "podcertificaterequests", "--all-namespaces")...))
	}
	if err != nil {
		return nil, advice.On("reading the request", err)
	}
	req := &podRequest{}
	return req, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, req)
}

// explain decides what was gathered means.
func (g *podGatherer) explain(cfg Config) PodExplanation {
	req, v := g.req, judgePod(g.req)
	e := PodExplanation{
		Namespace: req.Namespace, Name: req.Name, UID: string(req.UID), State: v.State, Checks: g.checks,
		Request: PodRequest{
			SignerName: req.Spec.SignerName, Created: req.CreationTimestamp.Time,
			Pod: req.Spec.PodName, ServiceAccount: req.Spec.ServiceAccountName, Node: string(req.Spec.NodeName),
			Key: g.key, ExpirationSeconds: req.Spec.MaxExpirationSeconds, Annotations: req.Spec.UnverifiedUserAnnotations,
		},
	}
	if v.State == certificates.Issued {
		e.Certificate = leafOf(req.Status.CertificateChain)
		if at := req.Status.BeginRefreshAt; at != nil {
			e.RefreshAt = &at.Time
		}
	}
	e.Verdict = req.Name + " " + g.verdict(v, e.Certificate, cfg.Now())
	e.Next = g.next(v, cfg)
	return e
}

func (g *podGatherer) verdict(v podVerdict, cert *Certificate, now time.Time) string {
	said := fmt.Sprintf("%s (%s)", v.Condition.Message, v.Condition.Reason)
	switch {
	case v.State == certificates.Denied:
		return "was denied: " + said
	case v.State == certificates.Failed:
		return "failed at its signer: " + said
	case v.State == certificates.Issued && cert != nil:
		return "is issued: its certificate is valid until " + cert.NotAfter.Format(time.RFC3339)
	case v.State == certificates.Issued:
		return "has a certificate that cannot be read"
	}
	o := outlook{checks: g.checks, waited: now.Sub(g.req.CreationTimestamp.Time), words: words{
		state: "is pending", signer: "signer", silent: "its signer",
	}}
	return o.unsigned()
}

func (g *podGatherer) next(v podVerdict, cfg Config) []Step {
	switch {
	case v.State == certificates.Denied || v.State == certificates.Failed:
		return []Step{{Text: "This is final: the kubelet asks again only for a new pod, 'certplane agent' after some time."}}
	case v.State == certificates.Issued:
		return nil
	case g.signer == nil:
		return []Step{step("Is the signer's name right, and does the program that signs for it run? To see the declared signers:", cfg.kubectl("get", "signers"))}
	default:
		return []Step{step("To see what its signer does:", cfg.kubectl("get", "signers", g.signer.Name, "-o", "wide"))}
	}
}

func leafOf(chain string) *Certificate {
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		return nil
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil
	}
	return describeCertificate(pem.EncodeToMemory(block))
}

// text is the explanation for people: the verdict first.
func (e PodExplanation) text(now time.Time) string {
	p := &page.Page{}
	p.Line(e.Verdict)
	p.Section("Request", [][]string{
		{"signer", e.Request.SignerName}, {"pod", e.Namespace + "/" + e.Request.Pod}, {"service account", e.Request.ServiceAccount},
		{"node", e.Request.Node}, {"key", page.OrNone(e.Request.Key)}, {"created", page.Ago(now, e.Request.Created)},
	})
	p.Section("Checks", checkRows(e.Checks))
	if e.Certificate != nil {
		rows := e.Certificate.rows()
		if e.RefreshAt != nil {
			rows = append(rows, []string{"refresh at", e.RefreshAt.UTC().Format(time.RFC3339)})
		}
		p.Section("Certificate", rows)
	}
	p.Section("Events", eventRows(e.Events, now))
	writeSteps(p, e.Next)
	return p.String()
}
