package decisionlog

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Recorded is the content of a line about its decision.
type Recorded struct {
	// Input is the input of the decision. Facts whose content the line omits are not
	// known.
	Input certpolicy.Input
	// Pod is the spec of a pod's request, nil for other requests.
	Pod *certificatesv1beta1.PodCertificateRequestSpec
	// access holds the API server's answers to the access checks of policies.
	access map[string]bool
}

// Read returns what the decision of a line was about.
func Read(line *v1alpha1.LoggedDecision) (*Recorded, error) {
	if line.Object == nil || len(line.Object.Raw) == 0 {
		return nil, ErrNoObject
	}
	r := &Recorded{Input: certpolicy.Input{Stage: line.Stage, Time: line.Time.Time}}
	if line.OwnSigner != nil {
		r.Input.Facts.Signer = certpolicy.OwnSigner(*line.OwnSigner)
	}
	if line.BuiltIn != nil {
		r.Input.Facts.BuiltIn = certpolicy.Known(nonEmpty(*line.BuiltIn))
	}
	r.Input.Facts.RequestPolicies = line.RequestPolicies
	if line.Keys != nil {
		r.Input.Facts.Keys = certpolicy.Known(line.Keys)
	}
	if line.Earlier != nil {
		r.Input.Facts.Earlier = certpolicy.Known(line.Earlier)
	}
	if err := r.readObject(line); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	if line.Patience != nil {
		r.Input.Patience = line.Patience.Duration
	}
	for _, one := range []struct {
		der []byte
		to  **x509.Certificate
	}{{line.Certificate, &r.Input.Certificate}, {line.Prospective, &r.Input.Prospective}} {
		if len(one.der) == 0 {
			continue
		}
		cert, err := x509.ParseCertificate(one.der)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate: %w", err)
		}
		*one.to = cert
	}
	for _, v := range line.Votes {
		r.Input.Votes = append(r.Input.Votes, quorum.FromLogged(v))
	}
	return r, r.readFacts(line)
}

func nonEmpty(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// ErrNoObject means that a line does not have the request.
var ErrNoObject = errors.New("the line has no object")

func (r *Recorded) readObject(line *v1alpha1.LoggedDecision) error {
	switch line.Request.Kind {
	case v1alpha1.CertificateSigningRequests:
		csr := &certificatesv1.CertificateSigningRequest{}
		if err := json.Unmarshal(line.Object.Raw, csr); err != nil {
			return err
		}
		r.Input.Request = request.FromCSR(csr)
	case v1alpha1.CertificateRequests:
		cr := &cmv1.CertificateRequest{}
		if err := json.Unmarshal(line.Object.Raw, cr); err != nil {
			return err
		}
		r.Input.Request = request.FromCertificateRequest(cr)
	case v1alpha1.PodCertificateRequests:
		pcr := &certificatesv1beta1.PodCertificateRequest{}
		if err := json.Unmarshal(line.Object.Raw, pcr); err != nil {
			return err
		}
		r.Input.Request, r.Pod = request.FromPodRequest(pcr), &pcr.Spec
	default:
		return fmt.Errorf("the kind %q is not known", line.Request.Kind)
	}
	return nil
}

// readFacts reads the facts whose content is in the line.
func (r *Recorded) readFacts(line *v1alpha1.LoggedDecision) error {
	facts := &r.Input.Facts
	if origin := line.Request.Origin; origin != "" {
		facts.Origin, facts.Order = certpolicy.Known(&origin), line.Order
		if origin != v1alpha1.OriginCertificate {
			facts.Owner = certpolicy.Known[metav1.ObjectMeta](nil)
		}
	}
	r.access = map[string]bool{}
	for i := range line.Facts {
		fact := &line.Facts[i]
		if fact.Access != "" && fact.Allowed != nil {
			r.access[fact.Access] = *fact.Allowed
		}
		if fact.Quota != nil {
			readQuota(fact.Quota, facts)
		}
		if fact.Object == "" || fact.Content == nil && !fact.Absent {
			continue
		}
		if err := r.readFact(fact); err != nil {
			return fmt.Errorf("reading the fact %s: %w", fact.Object, err)
		}
	}
	return nil
}

func (r *Recorded) readFact(fact *v1alpha1.DecisionFact) error {
	facts, in := &r.Input.Facts, &r.Input.Request
	switch plural, _, _ := strings.Cut(fact.Object, "/"); plural {
	case namespaces:
		return readMetadata(fact, &facts.Namespace, &in.NamespaceObject, in.Kind)
	case nodes:
		return r.readNode(fact)
	case certificates:
		return readMetadata(fact, &facts.Owner, nil, "")
	case serviceAccounts:
		return readMetadata(fact, nil, &in.ServiceAccount, in.Kind)
	case pods:
		return read(fact, &in.Pod)
	case services:
		_, path, _ := strings.Cut(fact.Object, "/")
		namespace, name, _ := strings.Cut(path, "/")
		in.Services = append(in.Services, request.ServiceName{Name: name, Namespace: namespace})
	}
	return nil
}

// readNode reads a node. For the node of a pod, the line may contain the metadata alone.
func (r *Recorded) readNode(fact *v1alpha1.DecisionFact) error {
	var node *corev1.Node
	if err := read(fact, &node); err != nil {
		return err
	}
	if fact.Absent || bytes.Contains(fact.Content.Raw, []byte(`"status":`)) {
		r.Input.Facts.Node = certpolicy.Known(node)
	}
	if r.Pod != nil && node != nil {
		r.Input.Request.Node = &node.ObjectMeta
	}
	return nil
}

// readMetadata reads an object into a fact, and of a pod's request into that.
func readMetadata(fact *v1alpha1.DecisionFact, to *certpolicy.Fact[metav1.ObjectMeta], ofPod **metav1.ObjectMeta, kind v1alpha1.RequestKind) error {
	var object *metav1.PartialObjectMetadata
	if err := read(fact, &object); err != nil {
		return err
	}
	var metadata *metav1.ObjectMeta
	if object != nil {
		metadata = &object.ObjectMeta
	}
	if to != nil {
		*to = certpolicy.Known(metadata)
	}
	if ofPod != nil && kind == v1alpha1.PodCertificateRequests {
		*ofPod = metadata
	}
	return nil
}

func read[T any](fact *v1alpha1.DecisionFact, into **T) error {
	if fact.Absent {
		return nil
	}
	*into = new(T)
	return json.Unmarshal(fact.Content.Raw, *into)
}

// Needed returns the input, with the recorded answers to the access checks of policies,
// and the needs that the line does not meet. Answers are found by the text of the access
// check, since the line records nothing else of it.
func (r *Recorded) Needed(needs certpolicy.Needs) (certpolicy.Input, certpolicy.Needs) {
	in, asked := r.Input, &r.Input.Request
	missing := certpolicy.Needs{
		Origin:    needs.Origin && !in.Facts.Origin.Known,
		Owner:     needs.Owner && !in.Facts.Owner.Known && asked.Kind == v1alpha1.CertificateRequests,
		Namespace: needs.Namespace && !in.Facts.Namespace.Known && asked.NamespaceObject == nil && certpolicy.NamespaceOf(asked) != "",
		Node:      needs.Node && !in.Facts.Node.Known && (r.Pod != nil || certpolicy.NodeOf(asked) != ""),
		Earlier:   needs.Earlier && !in.Facts.Earlier.Known,
		Keys:      needs.Keys && !in.Facts.Keys.Known,
		BuiltIn:   needs.BuiltIn && !in.Facts.BuiltIn.Known,
		Pod:       r.Pod != nil && asked.Pod == nil,
		Services:  r.Pod != nil && needs.Services && len(asked.Services) == 0,
	}
	in.Facts.Access = map[certpolicy.Access]bool{}
	for _, what := range needs.Access {
		if allowed, known := r.access[what.String()]; known {
			in.Facts.Access[what] = allowed
		} else {
			missing.Access = append(missing.Access, what)
		}
	}
	return in, missing
}
