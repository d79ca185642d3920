package explain

import (
	"context"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/retention"
)

// kind is a kind of objects that are explained by name.
type kind struct {
	// verb is the subcommand of "certplane explain", noun the kind in messages,
	// and resource the kind for kubectl.
	verb, noun, resource string
	namespaced           bool
	// deleted is a sentence about the automatic deletion of objects, ending with a blank;
	// empty if only users delete them.
	deleted string
	// install holds the next steps if a server does not serve the kind.
	install []Step
	new     func() client.Object
}

// installCertManager holds the next steps if a server lacks cert-manager's kinds.
var installCertManager = []Step{{Text: "Install the kinds of " + certmanager.Group + " there."}}

// The kinds of requests, Certificates, and the objects that ACME issuers create for them.
var (
	signingRequests = kind{
		verb: "csr", noun: "certificate signing request", resource: "csr",
		deleted: "A request is deleted some time after it was decided. ", new: func() client.Object { return &csr{} },
	}
	certificateRequests = kind{
		verb: "certificaterequest", noun: "CertificateRequest", resource: "certificaterequests." + certmanager.Group, namespaced: true,
		install: installCertManager, new: func() client.Object { return &cmv1.CertificateRequest{} },
	}
	issuedCertificates = kind{
		verb: "certificate", noun: "Certificate", resource: "certificates." + certmanager.Group, namespaced: true,
		install: installCertManager, new: func() client.Object { return &cmv1.Certificate{} },
	}
	orders = kind{
		verb: "order", noun: "Order", resource: "orders." + acmev1.SchemeGroupVersion.Group, namespaced: true,
		deleted: "An Order is deleted with its request. ", install: installCertManager, new: func() client.Object { return &acmev1.Order{} },
	}
	challenges = kind{
		verb: "challenge", noun: "Challenge", resource: "challenges." + acmev1.SchemeGroupVersion.Group, namespaced: true,
		deleted: "The Challenges of an Order are deleted once it has its certificate. ", install: installCertManager, new: func() client.Object { return &acmev1.Challenge{} },
	}
	podRequests = kind{
		verb: "podcertificaterequest", noun: "pod certificate request", resource: "podcertificaterequests", namespaced: true,
		deleted: "A request is deleted " + length(retention.DefaultPodAge) + " after its creation, unless the server is configured otherwise. ",
		install: []Step{{Text: "They require Kubernetes 1.35 with this API enabled: see docs/cluster.md."}},
	}
)

// key returns the key of an object of the kind.
func (k kind) key(q Query) client.ObjectKey {
	if k.namespaced {
		return client.ObjectKey{Namespace: q.Namespace, Name: q.Name}
	}
	return client.ObjectKey{Name: q.Name}
}

// get reads the object to explain.
func (k kind) get(ctx context.Context, api Reader, q Query, into client.Object) error {
	return k.explainError(ctx, api, q, api.Get(ctx, k.key(q), into))
}

// explainError returns the error of reading the object to explain, with the next steps.
func (k kind) explainError(ctx context.Context, api Reader, q Query, err error) error {
	if !apierrors.IsNotFound(err) || served.IsMissing(err) && k.install == nil {
		return readError("reading the "+k.noun, err)
	}
	if served.IsMissing(err) {
		return &NotFoundError{Message: "the server has no " + k.resource, KindMissing: true, Next: k.install}
	}
	list, where := q.kubectl("get", k.resource), ""
	if k.namespaced {
		list, where = append(list, "--all-namespaces"), " in the namespace "+q.Namespace
	}
	return &NotFoundError{
		Message: fmt.Sprintf("found no %s named %s%s", k.noun, q.Name, where),
		Next:    append(k.others(ctx, api, q), step(k.deleted+"To list them:", list)),
	}
}

// others returns steps for objects with the same name and another kind, because kinds are
// easily confused. It skips objects that cannot be read, without an error.
func (k kind) others(ctx context.Context, api Reader, q Query) []Step {
	var steps []Step
	for _, other := range []kind{signingRequests, certificateRequests, issuedCertificates, orders, challenges} {
		if other.verb == k.verb {
			continue
		}
		if err := api.Get(ctx, other.key(q), other.new()); err == nil {
			steps = append(steps, step(fmt.Sprintf("A %s has that name:", other.noun), q.explainCommand(other, other.key(q))))
		}
	}
	return steps
}

// explainCommand returns the command that explains an object.
func (q Query) explainCommand(k kind, key client.ObjectKey) []string {
	words := []string{"explain", k.verb}
	if k.namespaced {
		words = append(words, "-n", key.Namespace)
	}
	return q.CertplaneOn([]string{key.Name}, words...)
}

// fetchStep returns the step that fetches the certificate of a request.
func (q Query) fetchStep(k kind, object client.Object) Step {
	words := []string{"get", k.resource}
	if k.namespaced {
		words = append(words, "-n", object.GetNamespace())
	}
	return step("To fetch the certificate, in base64:", print.Command(q.kubectl(words...), []string{object.GetName()}, "-o", "jsonpath={.status.certificate}"))
}
