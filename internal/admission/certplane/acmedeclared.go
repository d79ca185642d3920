package certplane

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/rights"
)

// validateEndpoint refuses endpoints that cannot work, and endpoints that give access
// to signers or a ServiceAccount to which their author has no right.
func (c *ACMEChecks) validateEndpoint(ctx context.Context, w Write) ([]string, *apierrors.StatusError) {
	if w.Subresource != "" || w.sameSpec() && w.allowsLocal() == w.allowedLocal() {
		return nil, nil
	}
	endpoint := &v1alpha1.AcmeEndpoint{}
	if err := w.as(endpoint); err != nil {
		return nil, w.invalidACME(field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())})
	}
	_, errs := acmeorder.Compile(endpoint)
	if errs = append(errs, w.checkLocal(endpoint.Spec.Challenges.Networks.Allow)...); len(errs) > 0 {
		return nil, w.invalidACME(errs)
	}
	warnings := endpointWarnings(&endpoint.Spec)
	for _, profile := range endpoint.Spec.Profiles {
		right, others := referenceTo(profile)
		if refusal := c.authorize.require(ctx, w, right, fmt.Sprintf("the profile %q", profile.Name), others...); refusal != nil {
			return warnings, refusal
		}
	}
	if account := endpoint.Spec.Accounts.ServiceAccount; account != nil {
		return warnings, c.authorize.require(ctx, w, acmeorder.ActAs(account.Namespace, account.Name), "having accounts act as a ServiceAccount")
	}
	return warnings, nil
}

// checkLocal refuses networks of the server's own host, unless the author has confirmed
// them. Invalid entries are reported elsewhere.
func (w Write) checkLocal(allow []string) field.ErrorList {
	if w.allowsLocal() {
		return nil
	}
	var errs field.ErrorList
	for i, text := range allow {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		if acmeaddress.OpensLocal(prefix) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "challenges", "networks", "allow").Index(i),
				fmt.Sprintf("%s has loopback, link-local or metadata addresses, which needs the annotation %s: \"true\"", text, v1alpha1.AcmeAllowLocalAnnotation)))
		}
	}
	return errs
}

func (w Write) allowsLocal() bool {
	return w.Object.GetAnnotations()[v1alpha1.AcmeAllowLocalAnnotation] == "true"
}

func (w Write) allowedLocal() bool {
	return w.Old != nil && w.Old.GetAnnotations()[v1alpha1.AcmeAllowLocalAnnotation] == "true"
}

func (w Write) invalidACME(errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kindOf[w.Resource]).GroupKind(), w.Name, errs)
}

// referenceTo returns the right to name the signer or issuer of a profile, and the
// name under which it is granted for all of its domain or kind.
func referenceTo(profile v1alpha1.AcmeProfile) (right authorizationv1.ResourceAttributes, otherNames []string) {
	right = authorizationv1.ResourceAttributes{Verb: rights.ACMEReference, Group: certificatesv1.GroupName, Version: "*", Resource: "signers"}
	if profile.Signer != nil {
		right.Name = profile.Signer.Name
	} else if issuer := profile.Issuer; issuer != nil {
		// An Issuer of this name can be in any namespace: the account's namespace
		// counts.
		right.Group = certmanager.Group
		right.Name = strings.ToLower(issuer.Kind) + "s." + issuer.Group + "/" + issuer.Name
	}
	domain, _, _ := strings.Cut(right.Name, "/")
	return right, []string{domain + "/*"}
}

// endpointWarnings warns of settings that the author may not have meant.
func endpointWarnings(spec *v1alpha1.AcmeEndpointSpec) []string {
	var warnings []string
	if spec.Accounts.Admission == v1alpha1.AcmeAdmissionOpen {
		warnings = append(warnings, "spec.accounts.admission: Open lets everybody who reaches the server have an account")
	}
	if slices.ContainsFunc(spec.Challenges.HTTP01.Ports, func(port int32) bool { return port != 80 }) {
		warnings = append(warnings, "spec.challenges.http01.ports: the standard has 80 alone; users of a host without privileges can answer at ports above 1023")
	}
	if slices.ContainsFunc(spec.Challenges.TLSALPN01.Ports, func(port int32) bool { return port != 443 }) {
		warnings = append(warnings, "spec.challenges.tlsAlpn01.ports: the standard has 443 alone; users of a host without privileges can answer at ports above 1023")
	}
	for i, p := range spec.Profiles {
		if p.Subject == v1alpha1.AcmeSubjectAny {
			warnings = append(warnings, fmt.Sprintf("spec.profiles[%d].subject: Any: certificates have an ordered common name and nothing else of the subject that a client sends", i))
		}
	}
	types := spec.Challenges.Types
	if ip := spec.Identifiers.IP; ip != nil && len(ip.Allow) > 0 && !slices.Contains(types, "http-01") && !slices.Contains(types, "tls-alpn-01") {
		warnings = append(warnings, "spec.identifiers.ip: addresses are proven by http-01 and tls-alpn-01 alone, and challenges.types has neither: only preauthorized ones can be ordered")
	}
	return warnings
}

// validateExternalKey refuses keys that cannot work, and keys that grant more than
// their author may: accounts of the endpoint that act as the ServiceAccount, and names
// without a challenge.
func (c *ACMEChecks) validateExternalKey(ctx context.Context, w Write) *apierrors.StatusError {
	if w.Subresource != "" || w.sameSpec() || w.onlyRevokes() {
		return nil
	}
	key := &v1alpha1.AcmeExternalKey{}
	if err := w.as(key); err != nil {
		return w.invalidACME(field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())})
	}
	if _, errs := acmeorder.CompileKey(key); len(errs) > 0 {
		return w.invalidACME(errs)
	}
	spec := key.Spec
	if refusal := c.authorize.require(ctx, w, acmeorder.OnEndpoint(rights.ACMEUse, spec.Endpoint), "an external key"); refusal != nil {
		return refusal
	}
	if p := spec.Preauthorized; p != nil && len(p.DNS)+len(p.IP) > 0 {
		if refusal := c.authorize.require(ctx, w, acmeorder.OnEndpoint(rights.ACMEPreauthorize, spec.Endpoint), "an external key in the place of challenges"); refusal != nil {
			return refusal
		}
	}
	return c.authorize.require(ctx, w, acmeorder.ActAs(w.Namespace, spec.ServiceAccount), "having accounts act as a ServiceAccount")
}

// onlyRevokes reports whether a write revokes a key and changes nothing else: that
// needs none of the rights that the key grants.
func (w Write) onlyRevokes() bool {
	if w.Old == nil {
		return false
	}
	spec, _ := w.Object.Object["spec"].(map[string]any)
	old, _ := w.Old.Object["spec"].(map[string]any)
	return spec["revoked"] == true && reflect.DeepEqual(without(spec, "revoked"), without(old, "revoked"))
}

// without returns a copy of an object without fields.
func without(object map[string]any, names ...string) map[string]any {
	out := make(map[string]any, len(object))
	for name, value := range object {
		if !slices.Contains(names, name) {
			out[name] = value
		}
	}
	return out
}
