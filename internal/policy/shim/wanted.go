// Package shim decides which Certificates of cert-manager.io an Ingress, Gateway or ListenerSet
// requests, and whether a stored one differs. A controller writes what it decides, and a client
// foretells it.
package shim

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Mark is the annotation of Certificates that the controllers ingress-shim and gateway-shim have written. All their fields
// follow the annotations of the owner. A Certificate without it is from cert-manager.
const Mark = v1alpha1.GroupName + "/shim"

// applySet is the label that kubectl deletes objects by: a Certificate is not in the set of its
// owner.
const applySet = "applyset.kubernetes.io/part-of"

// The kinds of objects that request Certificates.
var (
	IngressKind     = networkingv1.SchemeGroupVersion.WithKind("Ingress")
	GatewayKind     = schema.GroupVersion(gatewayv1.GroupVersion).WithKind("Gateway")
	ListenerSetKind = schema.GroupVersion(gatewayv1.GroupVersion).WithKind("ListenerSet")
)

// Wish is what an Ingress, Gateway or ListenerSet requests.
type Wish struct {
	// Certificates are the wanted Certificates.
	Certificates []*cmv1.Certificate
	// Problems are errors of the user, for Events.
	Problems []string
	// Void means that nothing is written or deleted.
	Void bool
}

// Settings are the settings of all kinds.
type Settings struct {
	IngressSettings
	GatewaySettings
}

// entry is a Secret and the hosts whose certificate it is to hold.
type entry struct {
	secret string
	hosts  []string
}

// Of returns what an object requests. It does not modify the object.
func (s Settings) Of(o metav1.Object, kind schema.GroupVersionKind) Wish {
	annotations := o.GetAnnotations()
	if !s.Triggers(o) || o.GetDeletionTimestamp() != nil || slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return Wish{Void: true}
	}
	ref, err := issuer(annotations, s.IngressSettings)
	if err != nil {
		return Wish{Void: true, Problems: []string{"Could not determine issuer for ingress due to bad annotations: " + err.Error()}}
	}
	entries, problems, err := s.entries(o)
	if err != nil {
		return Wish{Void: true, Problems: []string{err.Error()}}
	}
	w := Wish{Problems: problems}
	for _, e := range entries {
		crt := &cmv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: o.GetNamespace(), Name: e.secret, Labels: maps.Clone(o.GetLabels()), Annotations: s.wantedAnnotations(o),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)},
			},
			Spec: cmv1.CertificateSpec{SecretName: e.secret, IssuerRef: ref, Usages: cmv1.DefaultKeyUsages()},
		}
		delete(crt.Labels, applySet)
		crt.Spec.DNSNames, crt.Spec.IPAddresses = split(e.hosts)
		if err := translate(annotations, &crt.Spec); err != nil {
			return Wish{Void: true, Problems: append(problems, err.Error())}
		}
		w.Certificates = append(w.Certificates, crt)
	}
	return w
}

// Triggers reports whether the annotations of an object request Certificates.
func (s Settings) Triggers(o metav1.Object) bool {
	annotations := o.GetAnnotations()
	_, hasIssuer := annotations[cmv1.IngressIssuerNameAnnotationKey]
	_, hasClusterIssuer := annotations[cmv1.IngressClusterIssuerNameAnnotationKey]
	if _, ok := o.(*networkingv1.Ingress); !ok || hasIssuer || hasClusterIssuer {
		return hasIssuer || hasClusterIssuer
	}
	return slices.ContainsFunc(s.AutoAnnotations, func(key string) bool {
		yes, err := strconv.ParseBool(annotations[key])
		return yes && err == nil
	})
}

// split separates IP addresses from names, without repetitions.
func split(hosts []string) (names, addresses []string) {
	for i, host := range hosts {
		switch {
		case slices.Contains(hosts[:i], host):
		case net.ParseIP(host) != nil:
			addresses = append(addresses, host)
		default:
			names = append(names, host)
		}
	}
	return names, addresses
}

// entries returns the Secrets that an object names, with their hosts, and what is wrong with
// other entries. It returns an error if all of the object is to be left alone.
func (s Settings) entries(o metav1.Object) (entries []entry, problems []string, err error) {
	if ingress, ok := o.(*networkingv1.Ingress); ok {
		return ingressEntries(ingress.Spec.TLS)
	}
	for i, l := range listeners(o) {
		if !s.usesTLS(l) || ignored(o, l) {
			continue
		}
		if errs := checkListener(field.NewPath("spec", "listeners").Index(i), l, o.GetNamespace()); len(errs) > 0 {
			problems = append(problems, "Skipped a listener block: "+errs.ToAggregate().Error())
			continue
		}
		for _, ref := range l.TLS.CertificateRefs {
			at := slices.IndexFunc(entries, func(e entry) bool { return e.secret == string(ref.Name) })
			if at < 0 {
				at, entries = len(entries), append(entries, entry{secret: string(ref.Name)})
			}
			entries[at].hosts = append(entries[at].hosts, string(*l.Hostname))
		}
	}
	return entries, problems, nil
}

func ingressEntries(blocks []networkingv1.IngressTLS) (entries []entry, problems []string, err error) {
	var repeated field.ErrorList
	for i, block := range blocks {
		path, name := field.NewPath("spec", "tls").Index(i), block.SecretName
		same := func(other networkingv1.IngressTLS) bool { return other.SecretName == name }
		if next := slices.IndexFunc(blocks[i+1:], same); next >= 0 && !slices.ContainsFunc(blocks[:i], same) {
			repeated = append(repeated, field.Invalid(path.Child("secretName"), name,
				fmt.Sprintf("this secret name must only appear in a single TLS entry but is also used in spec.tls[%d].secretName", i+1+next)))
		}
		var errs field.ErrorList
		if len(block.Hosts) == 0 {
			errs = append(errs, field.Required(path.Child("hosts"), ""))
		}
		if name == "" {
			errs = append(errs, field.Required(path.Child("secretName"), ""))
		}
		if len(errs) > 0 {
			problems = append(problems, "Skipped a TLS block: "+errs.ToAggregate().Error())
			continue
		}
		entries = append(entries, entry{name, block.Hosts})
	}
	return entries, problems, repeated.ToAggregate()
}

// listeners returns the listeners of a Gateway or ListenerSet.
func listeners(o metav1.Object) []gatewayv1.Listener {
	switch o := o.(type) {
	case *gatewayv1.Gateway:
		return o.Spec.Listeners
	case *gatewayv1.ListenerSet:
		all := make([]gatewayv1.Listener, len(o.Spec.Listeners))
		for i, l := range o.Spec.Listeners {
			all[i] = gatewayv1.Listener(l)
		}
		return all
	}
	return nil
}

// usesTLS reports whether a gateway needs the certificate of a listener.
func (s Settings) usesTLS(l gatewayv1.Listener) bool {
	if l.TLS != nil && ptr.Deref(l.TLS.Mode, "") == gatewayv1.TLSModePassthrough {
		return false
	}
	return l.Protocol == gatewayv1.HTTPSProtocolType || l.Protocol == gatewayv1.TLSProtocolType || slices.Contains(s.ExtraProtocols, string(l.Protocol))
}

// ignored reports whether an annotation excludes a listener.
func ignored(o metav1.Object, l gatewayv1.Listener) bool {
	for name := range strings.SplitSeq(o.GetAnnotations()[cmv1.CertificateIgnoreTLSListeners], ",") {
		if name = strings.TrimSpace(name); name != "" && name == string(l.Name) {
			return true
		}
	}
	return false
}

// checkListener returns the errors of a listener. Paths and texts are those of cert-manager.
func checkListener(path *field.Path, l gatewayv1.Listener, namespace string) (errs field.ErrorList) {
	if ptr.Deref(l.Hostname, "") == "" {
		errs = append(errs, field.Required(path.Child("hostname"), "the hostname cannot be empty"))
	}
	tls := path.Child("tls")
	if l.TLS == nil {
		return append(errs, field.Required(tls, "the TLS block cannot be empty"))
	}
	refs := tls.Child("certificateRef")
	if len(l.TLS.CertificateRefs) == 0 {
		errs = append(errs, field.Required(refs, "listener has no certificateRefs"))
	}
	for i, ref := range l.TLS.CertificateRefs {
		if group := ptr.Deref(ref.Group, ""); group != "core" && group != "" {
			errs = append(errs, field.NotSupported(refs.Index(i).Child("group"), group, []string{"core", ""}))
		}
		if kind := ptr.Deref(ref.Kind, ""); kind != "Secret" && kind != "" {
			errs = append(errs, field.NotSupported(refs.Index(i).Child("kind"), kind, []string{"Secret", ""}))
		}
		if ref.Namespace != nil && string(*ref.Namespace) != namespace {
			errs = append(errs, field.Invalid(refs.Index(i).Child("namespace"), *ref.Namespace, "cross-namespace secret references are not allowed in listeners"))
		}
	}
	if l.TLS.Mode == nil {
		errs = append(errs, field.Required(tls.Child("mode"), "the mode field is required"))
	} else if *l.TLS.Mode != gatewayv1.TLSModeTerminate {
		errs = append(errs, field.NotSupported(tls.Child("mode"), *l.TLS.Mode, []string{string(gatewayv1.TLSModeTerminate)}))
	}
	return errs
}

// SecretNames returns the names of all Secrets that an object names for certificates, also in
// entries that are skipped or ignored.
func SecretNames(o metav1.Object) (names []string) {
	if ingress, ok := o.(*networkingv1.Ingress); ok {
		for _, block := range ingress.Spec.TLS {
			names = append(names, block.SecretName)
		}
	}
	for _, l := range listeners(o) {
		if l.TLS != nil {
			for _, ref := range l.TLS.CertificateRefs {
				names = append(names, string(ref.Name))
			}
		}
	}
	return names
}

// wantedAnnotations returns the annotations of the Certificates of an object.
func (s Settings) wantedAnnotations(o metav1.Object) map[string]string {
	from, wanted := o.GetAnnotations(), map[string]string{Mark: "1"}
	for _, key := range s.CopiedAnnotations {
		if value, ok := from[key]; ok {
			wanted[key] = value
		}
	}
	if from[acmev1.IngressEditInPlaceAnnotationKey] == "true" {
		wanted[acmev1.ACMECertificateHTTP01IngressNameOverride] = o.GetName()
		wanted[cmv1.IssueTemporaryCertificateAnnotation] = "true"
	}
	if class := from[cmv1.IngressACMEIssuerHTTP01IngressClassAnnotationKey]; class != "" {
		wanted[acmev1.ACMECertificateHTTP01IngressClassOverride] = class
	}
	if class := from[cmv1.IngressACMEIssuerHTTP01IngressClassNameAnnotationKey]; class != "" {
		wanted[acmev1.ACMECertificateHTTP01IngressClassNameOverride] = class
	}
	switch o := o.(type) {
	case *gatewayv1.Gateway:
		wanted[acmev1.ACMECertificateHTTP01ParentRefKind], wanted[acmev1.ACMECertificateHTTP01ParentRefName] = "Gateway", o.Name
	case *gatewayv1.ListenerSet:
		wanted[acmev1.ACMECertificateHTTP01ParentRefKind], wanted[acmev1.ACMECertificateHTTP01ParentRefName] = "ListenerSet", o.Name
		if yes, err := strconv.ParseBool(from[acmev1.ACMECertificateHTTP01ParentRefFallback]); yes && err == nil {
			parent := ParentOf(o)
			wanted[acmev1.ACMECertificateHTTP01ParentRefKind] = "Gateway"
			wanted[acmev1.ACMECertificateHTTP01ParentRefName], wanted[acmev1.ACMECertificateHTTP01ParentRefNamespace] = parent.Name, parent.Namespace
		}
	}
	return wanted
}
