package explain

import (
	"context"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
)

// View is an explanation as text.
type View struct {
	// Verdict is the explanation in one sentence.
	Verdict  string
	Sections []Section
	// Next holds the next steps.
	Next []explain.Step
}

// Section is a part of a View.
type Section struct {
	Title string
	// Lead is a sentence before the rows; it can be empty.
	Lead string
	Rows [][]string
}

// add adds a section, unless it has no rows.
func (v *View) add(title string, rows [][]string) {
	if len(rows) > 0 {
		v.Sections = append(v.Sections, Section{Title: title, Rows: rows})
	}
}

// String returns the view as text for a terminal: the verdict first.
func (v View) String() string {
	p := &print.Page{}
	p.Line(v.Verdict)
	for _, s := range v.Sections {
		p.Title(s.Title)
		if s.Lead != "" {
			p.Line("  " + s.Lead)
		}
		p.Table(s.Rows)
	}
	WriteSteps(p, v.Next)
	return p.String()
}

// Kinds are the kinds of objects that can be viewed, by the resource and the group that
// kubectl knows them by.
var Kinds = map[string]func(context.Context, explain.Reader, explain.Query) (View, error){
	"certificatesigningrequests.certificates.k8s.io": viewOf(explain.CertificateSigningRequest, requestView(signingRequestRows)),
	"podcertificaterequests.certificates.k8s.io":     viewOf(explain.PodCertificateRequest, requestView(podRequestRows)),
	"certificaterequests.cert-manager.io":            viewOf(explain.CertificateRequest, requestView(issuerRequestRows)),
	"certificates.cert-manager.io":                   viewOf(explain.IssuedCertificate, certificateView),
	"signers.certplane.dev":                          viewOf(explain.Signer, signerView),
	"revocations.certplane.dev":                      viewOf(explain.OfRevocation, objectView),
	"orders.acme.cert-manager.io":                    viewOf(explain.Order, orderView),
	"challenges.acme.cert-manager.io":                viewOf(explain.Challenge, challengeView),
	"acmeendpoints.certplane.dev":                    viewOf(explain.ACMEEndpoint, objectView),
	"acmeexternalkeys.certplane.dev":                 viewOf(explain.ACMEExternalKey, objectView),
	"acmeaccounts.certplane.dev":                     viewOf(explain.ACMEAccount, objectView),
	"acmeorders.certplane.dev":                       viewOf(explain.ACMEOrder, objectView),
}

func viewOf[E any](
	find func(context.Context, explain.Reader, explain.Query) (E, error), view func(E, time.Time) View,
) func(context.Context, explain.Reader, explain.Query) (View, error) {
	return func(ctx context.Context, api explain.Reader, q explain.Query) (View, error) {
		found, err := find(ctx, api, q)
		if err != nil {
			return View{}, err
		}
		return view(found, q.Now), nil
	}
}
