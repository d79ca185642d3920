package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/request"
)

const certificatesResource = "certificates.cert-manager.io"

// maxCertificates is the maximum number of Certificates read for one page.
const maxCertificates = 5000

// serveCertificates searches the Certificates of cert-manager.io.
func (u *user) serveCertificates(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	search, ends := query.Get("search"), query.Get("expiring")
	v := view{
		Title: "Certificates", watched: []string{certificatesResource},
		Lead: "Certificates of cert-manager.io, which are renewed in their Secrets. Those without a certificate come first, then the first to end.",
		Filters: []filter{
			{Name: "search", Label: "Search", Value: search, Hint: "name, namespace, issuer, Secret"},
			{Name: "expiring", Label: "Ends within", Value: ends, Hint: "7d"},
		},
	}
	length, problem := within("Ends within", ends)
	if problem != "" {
		v.Problem = problem
		u.write(w, r, http.StatusBadRequest, v)
		return
	}
	t := table{Title: "Certificates", None: "There are no Certificates.", Columns: []string{"Certificate", "Namespace", "Names", "Ready", "Ends", "In", "Renewal", "Issuer", "Secret"}}
	list := &cmv1.CertificateList{}
	err := u.api.List(r.Context(), list, client.Limit(maxCertificates))
	if t.Problem = listProblem(certificatesResource, err); t.Problem == "" && err != nil {
		u.failCall(w, r, "listing "+certificatesResource, err)
		return
	}
	if list.Continue != "" {
		t.Problem = fmt.Sprintf("There are more than %s Certificates: the others are not searched.", thousands(maxCertificates))
	}
	read := len(list.Items)
	found := slices.DeleteFunc(list.Items, func(c cmv1.Certificate) bool {
		return !matches(&c, search) || length > 0 && (c.Status.NotAfter == nil || c.Status.NotAfter.After(u.now.Add(length)))
	})
	if read > 0 {
		t.None = fmt.Sprintf("None of %s matches.", counted(read, "Certificate"))
	}
	slices.SortFunc(found, func(a, b cmv1.Certificate) int {
		return cmp.Or(endOf(&a).Compare(endOf(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	t.Total = len(found)
	number := pageNumber(query)
	first := min((number-1)*rowsOnPage, len(found))
	for i := range found[first:min(first+rowsOnPage, len(found))] {
		t.Rows = append(t.Rows, u.certificateRow(&found[first+i]))
	}
	t.page(query, number)
	v.Tables = []table{t}
	u.show(w, r, v)
}

// endOf returns the expiry of the current certificate; zero without one.
func endOf(c *cmv1.Certificate) time.Time {
	if c.Status.NotAfter == nil {
		return time.Time{}
	}
	return c.Status.NotAfter.Time
}

func (u *user) certificateRow(c *cmv1.Certificate) row {
	ready := string(cmmeta.ConditionUnknown)
	for _, condition := range c.Status.Conditions {
		if condition.Type == cmv1.CertificateConditionReady {
			ready = string(condition.Status)
		}
	}
	ends, left, renewal := "", "", ""
	if end := endOf(c); !end.IsZero() {
		ends, left = at(end), u.left(end)
	}
	if c.Status.RenewalTime != nil {
		renewal = u.ago(&c.Status.RenewalTime.Time)
	}
	r := texts(c.Name, c.Namespace, strings.Join(namesIn(c), ", "), ready, ends, left, renewal, issuerIn(c), c.Spec.SecretName)
	r[0].Link = u.linkTo(certificatesResource, c.Namespace, c.Name)
	return r
}

// namesIn returns the names that a Certificate requests; its common name if it has no others.
func namesIn(c *cmv1.Certificate) []string {
	names := slices.Concat(c.Spec.DNSNames, c.Spec.IPAddresses, c.Spec.URIs, c.Spec.EmailAddresses)
	if len(names) == 0 {
		return nonEmpty(c.Spec.CommonName)
	}
	return names
}

func issuerIn(c *cmv1.Certificate) string {
	return cmp.Or(c.Spec.IssuerRef.Kind, cmv1.IssuerKind) + " " + c.Spec.IssuerRef.Name
}

// matches reports whether a part of a Certificate contains a text, in upper or lower case.
func matches(c *cmv1.Certificate, search string) bool {
	parts := append(namesIn(c), request.FullName(c.Namespace, c.Name), issuerIn(c), c.Spec.SecretName, c.Spec.CommonName)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(strings.ToLower(part), strings.ToLower(search)) })
}
