package adopt

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/injection"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
	"github.com/certplane/certplane/internal/policy/shim"
	"github.com/certplane/certplane/internal/rights"
)

const (
	topicCertificates = "Certificates"
	topicShims        = "Ingresses and Gateways"
	topicInjection    = "Injected CAs"
	topicBundles      = "Bundles"
	topicObjects      = "Injected CAs and targets"
	// readers is how many Secrets are read at the same time.
	readers = 16
)

// readCertificates reads the Certificates and their Secrets, takes fingerprints, and runs the
// decisions of the controller certificates on them.
func (m *reader) readCertificates(ctx context.Context, p *Plan) (err error) {
	if p.crts, err = listAs[cmv1.Certificate](ctx, m, p, topicCertificates, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind).GroupKind()); err != nil {
		return err
	}
	requests, err := listAs[cmv1.CertificateRequest](ctx, m, p, topicCertificates, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind).GroupKind())
	if err != nil {
		return err
	}
	naming, ofNamespace := map[string][]*cmv1.Certificate{}, map[string][]*cmv1.CertificateRequest{}
	for _, crt := range p.crts {
		at := crt.Namespace + "/" + crt.Spec.SecretName
		naming[at] = append(naming[at], crt)
	}
	for _, cr := range requests {
		ofNamespace[cr.Namespace] = append(ofNamespace[cr.Namespace], cr)
	}
	secrets := make([]*corev1.Secret, len(p.crts))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, crt := range p.crts {
		group.Go(func() (err error) {
			secrets[i], err = m.secret(groupCtx, crt.Namespace, crt.Spec.SecretName)
			return err
		})
	}
	if skip, err := p.unread(topicCertificates, "the Secrets of Certificates", group.Wait()); err != nil || skip {
		return err
	}
	for i, crt := range p.crts {
		p.before.Certificates[nameOf(crt)] = fingerprint(crt, secrets[i])
		if outlivesCA(secrets[i]) { // as cert-manager lets it
			p.set("certManager.outliveCA", true)
		}
		m.decide(p, issuance.Situation{
			Certificate: crt, Secret: secrets[i], Requests: issuance.Own(crt, ofNamespace[crt.Namespace]),
			Owner:              issuance.Owner(naming[crt.Namespace+"/"+crt.Spec.SecretName], secrets[i]),
			IgnoresSuggestions: !p.field(true, "certManager.renewalInformation"),
		})
	}
	p.ok(topicCertificates, "certplane would issue %d of %s, and write %s again", len(p.WouldIssue), print.Number(len(p.crts), "Certificate"), print.Number(len(p.WouldWrite), "Secret"))
	return nil
}

// outlivesCA reports whether the certificate in a Secret ends after its CA.
func outlivesCA(s *corev1.Secret) bool {
	if s == nil {
		return false
	}
	leaf, err := pki.ParseBundle(s.Data[corev1.TLSCertKey])
	cas, errCA := pki.ParseBundle(s.Data[cmmeta.TLSCAKey])
	return err == nil && errCA == nil && leaf[0].NotAfter.After(cas[0].NotAfter)
}

// secret returns a Secret, or nil if it does not exist.
func (m *reader) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	if exists, err := m.exists(ctx, namespace, name, found); err != nil || !exists {
		return nil, err
	}
	return found, nil
}

// decide notes what the controller would do with a Certificate now.
func (m *reader) decide(p *Plan, s issuance.Situation) {
	name := nameOf(s.Certificate)
	if start := issuance.DefaultBackoff().Decide(s, m.now); !start.Why.None() {
		p.WouldIssue = append(p.WouldIssue, Change{"Certificate " + name, start.Why.Message})
		text, at := fmt.Sprintf("Certificate %s would be issued: %s", name, start.Why.Message), s.Certificate.Status.RenewalTime
		if s.Secret == nil || at != nil && !at.After(m.now) {
			p.warn(topicCertificates, text, "cert-manager issues it also.")
		} else {
			p.fail(topicCertificates, text, m.Line("explain", "certificate", "-n", s.Certificate.Namespace, s.Certificate.Name))
		}
		return
	}
	// Without passwords, keystores are not compared.
	_, drift, err := issuance.Maintain(s, p.field(false, "certManager.enableCertificateOwnerRef"), secret.Passwords{}, m.now)
	switch {
	case err != nil:
		p.warn(topicCertificates, fmt.Sprintf("the Secret of Certificate %s cannot be compared: %v", name, err))
	case drift != "":
		p.WouldWrite = append(p.WouldWrite, Change{"Secret " + s.Certificate.Namespace + "/" + s.Certificate.Spec.SecretName, string(drift)})
		p.warn(topicCertificates, fmt.Sprintf("the Secret of Certificate %s would be written, with the same key and certificate: %s", name, drift))
	}
}

// wouldShim runs the decisions of ingress-shim, and of gateway-shim if it is chosen.
func (m *reader) wouldShim(ctx context.Context, p *Plan) error {
	settings := shim.Settings{IngressSettings: shim.DefaultIngressSettings(), GatewaySettings: shim.DefaultGatewaySettings()}
	for stanza, into := range map[string]any{"ingressShim": &settings.IngressSettings, "gatewayShim": &settings.GatewaySettings} {
		set, _, _ := unstructured.NestedMap(p.Configuration, "certManager", stanza)
		if err := decode(set, into); err != nil {
			return err
		}
	}
	s := shims{reader: m, plan: p, settings: settings, stored: map[string]*cmv1.Certificate{}, owned: map[types.UID][]*cmv1.Certificate{}}
	for _, crt := range p.crts {
		s.stored[nameOf(crt)] = crt
		if owner := metav1.GetControllerOfNoCopy(crt); owner != nil {
			s.owned[owner.UID] = append(s.owned[owner.UID], crt)
		}
	}
	ingresses, err := listAs[networkingv1.Ingress](ctx, m, p, topicShims, shim.IngressKind.GroupKind())
	if err != nil {
		return err
	}
	for _, o := range ingresses {
		s.look(o, shim.IngressKind)
	}
	if p.chooses(rights.ShimGateways.Name) {
		if err := s.gateways(ctx); err != nil {
			return err
		}
	}
	if len(s.lag) > 0 {
		p.warn(topicShims, fmt.Sprintf("%s behind the annotations of their Ingress or Gateway, until a change that cert-manager also writes: %s", print.Number(len(s.lag), "Certificate"), some(s.lag)))
	}
	p.ok(topicShims, "%s of Ingresses and Gateways go on", print.Number(s.count, "Certificate"))
	return nil
}

// shims are the Certificates of Ingresses and Gateways.
type shims struct {
	*reader
	plan     *Plan
	settings shim.Settings
	stored   map[string]*cmv1.Certificate
	owned    map[types.UID][]*cmv1.Certificate // by owner
	lag      []string
	count    int
}

func (s *shims) gateways(ctx context.Context) error {
	gateways, err := listAs[gatewayv1.Gateway](ctx, s.reader, s.plan, topicShims, shim.GatewayKind.GroupKind())
	if err != nil {
		return err
	}
	byName := map[string]*gatewayv1.Gateway{}
	for _, o := range gateways {
		byName[nameOf(o)] = o
		s.look(o, shim.GatewayKind)
	}
	sets, err := listAs[gatewayv1.ListenerSet](ctx, s.reader, s.plan, topicShims, shim.ListenerSetKind.GroupKind())
	for _, o := range sets {
		gateway := byName[shim.ParentOf(o).String()]
		if gateway == nil || !s.settings.ListenerSets {
			continue
		}
		o.Annotations = shim.Inherit(o.Annotations, gateway.Annotations)
		allowed, err := shim.Allows(gateway, o.Namespace, func() (map[string]string, error) {
			namespace := &corev1.Namespace{}
			_, err := s.exists(ctx, "", o.Namespace, namespace)
			return namespace.Labels, err
		})
		switch {
		case err != nil:
			return err
		case allowed:
			s.look(o, shim.ListenerSetKind)
		case s.settings.Triggers(o):
			s.plan.warn(topicShims, fmt.Sprintf("Gateway %s does not allow the ListenerSet %s, so its Certificates are neither created nor updated", nameOf(gateway), nameOf(o)), "Set spec.allowedListeners of the Gateway, or certManager.gatewayShim.allowedListeners: Ignore.")
		}
	}
	return err
}

// look notes what the controller would do with the Certificates of an object.
func (s *shims) look(o metav1.Object, kind schema.GroupVersionKind) {
	wish := s.settings.Of(o, kind)
	for _, problem := range wish.Problems {
		s.plan.warn(topicShims, fmt.Sprintf("%s %s: %s", kind.Kind, nameOf(o), problem))
	}
	if wish.Void {
		return
	}
	change := func(name, why string) {
		s.plan.WouldWrite = append(s.plan.WouldWrite, Change{"Certificate " + name, why})
		s.plan.fail(topicShims, fmt.Sprintf("Certificate %s would be %s for %s %s", name, why, kind.Kind, nameOf(o)))
	}
	for _, wanted := range wish.Certificates {
		stored := s.stored[nameOf(wanted)]
		if stored == nil {
			change(nameOf(wanted), "created")
			continue
		}
		if !metav1.IsControlledBy(stored, o) {
			continue
		}
		s.count++
		if shim.Changed(stored, wanted) != nil {
			change(nameOf(wanted), "updated")
			continue
		}
		marked := stored.DeepCopy()
		metav1.SetMetaDataAnnotation(&marked.ObjectMeta, shim.Mark, wanted.Annotations[shim.Mark])
		if shim.Changed(marked, wanted) != nil {
			s.lag = append(s.lag, nameOf(wanted))
		}
	}
	for _, crt := range s.owned[o.GetUID()] {
		isWanted := func(w *cmv1.Certificate) bool { return w.Name == crt.Name }
		if !slices.Contains(shim.SecretNames(o), crt.Spec.SecretName) && !slices.ContainsFunc(wish.Certificates, isWanted) {
			change(nameOf(crt), "deleted")
		}
	}
}

// wouldInject runs the decisions of cainjector.
func (m *reader) wouldInject(ctx context.Context, p *Plan) error {
	same := 0
	for _, kind := range injection.Kinds {
		if p.part("cainjector") == nil {
			continue
		}
		objects, err := m.list(ctx, p, topicInjection, kind.GroupKind())
		if err != nil {
			return err
		}
		for i := range objects {
			from, name := injection.SourceOf(&objects[i]), kind.Kind+" "+objects[i].GetName()
			if from.Annotation == "" {
				continue
			}
			certs, problem, err := m.source(ctx, from)
			if err != nil {
				return fmt.Errorf("reading the source of %s: %w", name, err)
			}
			if problem != nil {
				p.warn(topicInjection, fmt.Sprintf("%s gets no CA: %s", name, problem.Message))
				continue
			}
			fields, _ := kind.Fields(objects[i].Object)
			changed, cas := false, [][]byte(nil)
			for _, field := range fields {
				cas = append(cas, field.Bundle())
				_, differs, _ := injection.Merge(field.Bundle(), certs, m.now)
				changed = changed || differs
			}
			p.before.Objects[name] = digest(cas...)
			if !changed {
				same++
				continue
			}
			p.WouldWrite = append(p.WouldWrite, Change{name, "another CA"})
			p.warn(topicInjection, name+" would get another CA", "Its present one differs from the source, or has expired.")
		}
	}
	p.ok(topicInjection, "%s have their CA", print.Number(same, "object"))
	return nil
}

// targets looks at Bundles, and takes digests of the ConfigMaps and Secrets that they write.
// certplane leaves targets as they are that trust-manager has written for the present Bundle.
func (m *reader) targets(ctx context.Context, p *Plan) error {
	bundles, err := listAs[trustmanager.Bundle](ctx, m, p, topicBundles, trustmanager.GroupVersion.WithKind(trustmanager.Kind).GroupKind())
	if err != nil {
		return err
	}
	for _, b := range bundles {
		synced := meta.FindStatusCondition(b.Status.Conditions, trustmanager.ConditionSynced)
		if synced == nil || synced.Status != metav1.ConditionTrue || synced.ObservedGeneration != b.Generation {
			p.warn(topicBundles, fmt.Sprintf("Bundle %s is not synced: certplane writes its targets, unless they cannot be written", b.Name), m.Line("kubectl", "describe", "bundle", b.Name))
		}
	}
	configMaps, secrets := &corev1.ConfigMapList{}, &corev1.SecretList{}
	err = errors.Join(m.api.List(ctx, configMaps, client.HasLabels{trustmanager.BundleLabel}), m.api.List(ctx, secrets, client.HasLabels{trustmanager.BundleLabel}))
	if skip, err := p.unread(topicBundles, "ConfigMaps and Secrets with the label "+trustmanager.BundleLabel, err); err != nil || skip {
		return err
	}
	for _, o := range configMaps.Items {
		content, err := json.Marshal([]any{o.Data, o.BinaryData})
		if err != nil {
			return fmt.Errorf("reading ConfigMap %s: %w", nameOf(&o), err)
		}
		p.before.Objects["ConfigMap "+nameOf(&o)] = digest(content)
	}
	for _, o := range secrets.Items {
		content, err := json.Marshal(o.Data)
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", nameOf(&o), err)
		}
		p.before.Objects["Secret "+nameOf(&o)] = digest(content)
	}
	p.ok(topicBundles, "%s with %s", print.Number(len(bundles), "Bundle"), print.Number(len(p.before.Objects), "target"))
	return nil
}

// source returns the CAs that an injected object asks for.
func (m *reader) source(ctx context.Context, from injection.Source) ([]*x509.Certificate, *injection.Problem, error) {
	if from.Annotation == cmv1.WantInjectAPIServerCAAnnotation {
		published := &corev1.ConfigMap{}
		if _, err := m.exists(ctx, "kube-system", "kube-root-ca.crt", published); err != nil {
			return nil, nil, err
		}
		certs, err := pki.ParseBundle([]byte(published.Data["ca.crt"]))
		if err != nil {
			return nil, injection.Problemf("CASourceNotFound", "the ConfigMap kube-system/kube-root-ca.crt cannot be read: %v", err), nil
		}
		usable, problem := injection.Usable(certs, "The CA of the API server", m.now)
		return usable, problem, nil
	}
	name, valid := from.Object()
	if !valid {
		return nil, injection.Problemf("BadInjection", "the annotation %s has the value %q", from.Annotation, from.Value), nil
	}
	annotation, value, secretName := cmv1.AllowsInjectionFromSecretAnnotation, "true", name.Name
	if from.Annotation == cmv1.WantInjectAnnotation {
		crt := &cmv1.Certificate{}
		if found, err := m.exists(ctx, name.Namespace, name.Name, crt); err != nil || !found {
			return nil, injection.Problemf("CASourceNotFound", "the Certificate %s does not exist", name), err
		}
		annotation, value, secretName = cmv1.CertificateNameKey, name.Name, crt.Spec.SecretName
	}
	found, err := m.secret(ctx, name.Namespace, secretName)
	if err != nil || found == nil {
		return nil, injection.Problemf("CASourceNotFound", "the Secret %s/%s does not exist", name.Namespace, secretName), err
	}
	certs, problem := injection.FromSecret(found, annotation, value, m.now)
	return certs, problem, nil
}
