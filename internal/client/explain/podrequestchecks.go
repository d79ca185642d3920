package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// podGatherer reads the facts about a pod's request from the API, and decides with the
// controller's code.
type podGatherer struct {
	Query
	api Reader
	req *podRequest
	// found are the checks so far.
	found []Check
	// key is the type of the request's key.
	key string
	// signer is nil if no Signer declares the signer name, or if the caller may
	// not list Signers.
	signer *v1alpha1.Signer
}

func (g *podGatherer) addCheck(name string, result Result, format string, args ...any) {
	g.found = append(g.found, Check{name, result, fmt.Sprintf(format, args...)})
}

// gather gathers the facts. It stops if the rest cannot be known.
func (g *podGatherer) gather(ctx context.Context) error {
	facts := request.FromPodRequest(g.req)
	if facts.Unreadable != nil {
		g.addCheck("request", No, "%v", facts.Unreadable)
	} else {
		g.key = pki.KubernetesKeyType(facts.Key)
		g.addCheck("request", Yes, "can be read, with a key of the type %s", g.key)
	}
	if err := g.findSigner(ctx); err != nil || facts.Unreadable != nil {
		return err
	}
	known, err := g.complete(ctx, &facts)
	if err == nil && known {
		err = g.askPolicies(ctx, facts)
	}
	if err == nil && known && g.signer != nil {
		err = g.decide(ctx, facts)
	}
	if err != nil {
		return err
	}
	return g.maySign(ctx)
}

func (g *podGatherer) askPolicies(ctx context.Context, facts request.Request) error {
	checks, err := policyChecks(ctx, g.api, facts, nil, g.Query)
	g.found = append(g.found, checks...)
	return err
}

// findSigner finds the Signer that declares the signer name.
func (g *podGatherer) findSigner(ctx context.Context) error {
	name := g.req.Spec.SignerName
	signer, known, err := declarer(ctx, g.api, name)
	switch {
	case err != nil:
		return err
	case !known:
		g.addCheck("signer", Unknown, "%s", mayNotListSigners)
	case signer == nil:
		g.addCheck("signer", No, "no Signer declares %s: another program must sign for it", name)
	default:
		ready, verdict := signerReadiness(signer)
		g.addCheck("signer", ready, "%s", verdict)
		g.signer = signer
	}
	return nil
}

// complete reads the objects that the request names.
func (g *podGatherer) complete(ctx context.Context, facts *request.Request) (known bool, err error) {
	spec := g.req.Spec
	pod, account, node, namespace := &corev1.Pod{}, &corev1.ServiceAccount{}, &corev1.Node{}, &corev1.Namespace{}
	if known, err = g.find(ctx, "pod", "pods", client.ObjectKey{Namespace: g.req.Namespace, Name: spec.PodName}, pod); !known {
		return false, err
	}
	facts.Pod = pod
	if refusal := profile.CheckPod(&spec, pod); refusal != nil {
		g.addCheck("pod", No, "%s (%s)", refusal.Message, refusal.Reason)
		return false, nil
	}
	for _, object := range []struct {
		name, resource string
		key            client.ObjectKey
		into           client.Object
	}{
		{"service account", "serviceaccounts", client.ObjectKey{Namespace: g.req.Namespace, Name: spec.ServiceAccountName}, account},
		{"node", "nodes", client.ObjectKey{Name: string(spec.NodeName)}, node},
		{"namespace", "namespaces", client.ObjectKey{Name: g.req.Namespace}, namespace},
	} {
		if known, err = g.find(ctx, object.name, object.resource, object.key, object.into); !known {
			return false, err
		}
	}
	facts.ServiceAccount, facts.Node, facts.NamespaceObject = &account.ObjectMeta, &node.ObjectMeta, &namespace.ObjectMeta
	for _, refusal := range []*profile.Refusal{
		profile.CheckUID("ServiceAccount", facts.ServiceAccount, spec.ServiceAccountUID), profile.CheckUID("Node", facts.Node, spec.NodeUID),
	} {
		if refusal != nil {
			g.addCheck("pod", No, "%s (%s)", refusal.Message, refusal.Reason)
			return false, nil
		}
	}
	g.addCheck("pod", Yes, "%s runs on %s as %s", pod.Name, node.Name, account.Name)
	return true, nil
}

// find reads an object, and adds a check if the object does not exist or cannot
// be read.
func (g *podGatherer) find(ctx context.Context, name, resource string, key client.ObjectKey, into client.Object) (known bool, err error) {
	switch err := g.api.Get(ctx, key, into); {
	case apierrors.IsNotFound(err):
		g.addCheck(name, No, "%v (%s)", err, profile.ReasonIdentity)
	case apierrors.IsForbidden(err):
		g.addCheck(name, Unknown, "%s", mayNotRead("get", resource, key.Namespace))
	default:
		return err == nil, err
	}
	return false, nil
}

// decide adds the decision of the profile.
func (g *podGatherer) decide(ctx context.Context, facts request.Request) error {
	compiled, errs := profile.Compile(g.signer.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		g.addCheck("profile", No, "%v", errs.ToAggregate())
		return nil
	}
	if compiled.NeedsServices() {
		known, err := g.services(ctx, &facts)
		if !known || err != nil {
			return err
		}
	}
	cert, err := compiled.Decide(facts)
	var refusal *profile.Refusal
	if errors.As(err, &refusal) {
		g.addCheck("profile", No, "%s (%s, %s of the Signer)", refusal.Message, refusal.Reason, refusal.Field)
		return nil
	}
	g.addCheck("profile", Yes, "grants a certificate for %s, valid for %s", identity(cert), length(cert.Duration))
	return nil
}

func identity(cert *profile.Certificate) string {
	var names []string
	if text := cert.Subject.String(); text != "" {
		names = append(names, text)
	}
	names = append(names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	return strings.Join(append(names, cert.EmailAddresses...), ", ")
}

// services finds the Services that the pod's service account may claim.
func (g *podGatherer) services(ctx context.Context, facts *request.Request) (known bool, err error) {
	all := &corev1.ServiceList{}
	switch found, err := list(ctx, g.api, all, client.InNamespace(g.req.Namespace)); {
	case err != nil:
		return false, err
	case found == Unknown:
		g.addCheck("services", Unknown, "%s", mayNotRead("list", "services", g.req.Namespace))
		return false, nil
	}
	for i := range all.Items {
		service := &all.Items[i]
		if !profile.Selects(service, facts.Pod) {
			continue
		}
		switch allowed, err := result(g.api.May(ctx, profile.Claim(facts.Requester, service))); {
		case err != nil:
			return false, err
		case allowed == Unknown:
			g.addCheck("services", Unknown, "you may not check what %s may claim", facts.Requester.Username)
			return false, nil
		case allowed == Yes:
			facts.Services = append(facts.Services, request.ServiceName{Name: service.Name, Namespace: service.Namespace})
		default:
			g.addCheck("claim", No, "%s may not claim the service %s", facts.Requester.Username, service.Name)
		}
	}
	return true, nil
}

// maySign checks which accounts may write the answer.
func (g *podGatherer) maySign(ctx context.Context) error {
	if g.signer == nil {
		return nil
	}
	signers, known, err := permittedSigners(ctx, g.api, declaredAccounts, g.req.Spec.SignerName)
	switch {
	case err != nil:
		return err
	case !known:
		g.addCheck("signing", Unknown, mayNotCheckSigners)
	case len(signers) > 0:
		g.addCheck("signing", Yes, "%s may sign for %s", signers[0], g.req.Spec.SignerName)
	default:
		g.addCheck("signing", No, "none of %s may sign for %s", strings.Join(declaredAccounts, ", "), g.req.Spec.SignerName)
	}
	return nil
}
