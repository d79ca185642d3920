package policies

import (
	"context"
	"encoding/pem"
	"net"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// RefuseOrder returns the problem of an order of an ACME client that the policies
// certainly forbid; nil if they do not, or if that is not known. The request of such an
// order would be refused at its creation; this tells clients earlier. Of a new order,
// only the names count: the key and the subject are not known.
func (p *Policies) RefuseOrder(ctx context.Context, planned acmeorder.Planned) *rfc8555.Problem {
	if p == nil || !p.settings.CreateChecks {
		return nil
	}
	if by := planned.Profile.Signer; by != nil && !p.Concern(v1alpha1.CertificateSigningRequests, by.Name) {
		return nil
	}
	isNew := len(planned.Order.Status.CSR) == 0
	if isNew {
		if err := plan(&planned); err != nil {
			return nil
		}
	}
	r, err := planned.Request(p.clock.Now())
	if err != nil || r.PKCS10 == nil {
		return nil // finalization says why
	}
	in := certpolicy.Input{Stage: v1alpha1.StageCreate, Request: r, NamesOnly: isNew}
	in.Facts.Origin, in.Facts.Owner = certpolicy.Known(new(v1alpha1.OriginACME)), certpolicy.Known[metav1.ObjectMeta](nil)
	if !isNew {
		in.Facts.Order = planned.Proven()
	}
	d, err := p.Decide(ctx, in)
	if err != nil || d == nil || d.Outcome != v1alpha1.OutcomeDeny {
		return nil
	}
	var objections []acmeorder.Objection
	for _, v := range d.Set.Disclosed(d.Violations) {
		objections = append(objections, acmeorder.Objection{Policy: v.Policy, Message: v.Message, Name: nameAt(&r, v.Field)})
	}
	if isNew && !acmeorder.AreAboutNames(objections) {
		return nil
	}
	return planned.RefusedByPolicy(objections, d.Message)
}

// nameAt returns the name or the address in a field of a request; nil for other fields.
func nameAt(r *request.Request, field string) *rfc8555.Identifier {
	kind, list, text := "", []string(nil), ""
	if at, is := strings.CutPrefix(field, "dnsNames["); is {
		kind, list, text = rfc8555.IdentifierDNS, r.PKCS10.DNSNames, at
	} else if at, is := strings.CutPrefix(field, "ipAddresses["); is {
		kind, text = rfc8555.IdentifierIP, at
		for _, ip := range r.PKCS10.IPAddresses {
			list = append(list, ip.String())
		}
	}
	n, err := strconv.Atoi(strings.TrimSuffix(text, "]"))
	if err != nil || n < 0 || n >= len(list) {
		return nil
	}
	return &rfc8555.Identifier{Type: kind, Value: strings.ToLower(list[n])}
}

// plan gives a new order a certificate request for its names, with a placeholder key.
func plan(planned *acmeorder.Planned) error {
	key, err := pki.PlaceholderKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	dns, ips := planned.Names()
	names := pki.AltNames{DNSNames: dns}
	for _, ip := range ips {
		names.IPAddresses = append(names.IPAddresses, net.ParseIP(ip))
	}
	text, err := pki.Content{Names: names}.Unsigned(key)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	o := planned.Order.DeepCopy()
	o.Status.CSR = block.Bytes
	planned.Order = o
	return nil
}
