package grant

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/rights"
)

// printObjects writes objects for "kubectl apply -f -".
func printObjects(out io.Writer, format string, objects []client.Object) error {
	if format == "json" {
		data, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the objects: %w", err)
		}
		_, err = out.Write(append(data, '\n'))
		return err
	}
	var documents []string
	for _, object := range objects {
		data, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", describe(object), err)
		}
		documents = append(documents, string(data))
	}
	_, err := io.WriteString(out, strings.Join(documents, "---\n"))
	return err
}

// summarise writes the result of each grant as a sentence.
func (cfg Config) summarise() {
	may := " may "
	switch {
	case cfg.Remove && cfg.DryRun != DryRunNone:
		may = " could not any more, by this grant, "
	case cfg.Remove:
		may = " may no longer, by this grant, "
	case cfg.DryRun != DryRunNone:
		may = " could "
	}
	var names []string
	for _, s := range cfg.Subjects {
		names = append(names, print.Printable(nameOf(s)))
	}
	for _, t := range cfg.Targets {
		fmt.Fprintln(cfg.Stdout, strings.Join(names, ", ")+may+t.String())
		if cfg.Remove {
			fmt.Fprintln(cfg.Stdout, "Other bindings stay. To list users who may: "+cfg.Command(t.WhoCan()...))
		}
	}
}

// remark writes remarks, each once.
func (cfg Config) remark(texts []string) {
	var seen []string
	for _, text := range texts {
		if !slices.Contains(seen, text) {
			seen = append(seen, text)
			fmt.Fprintln(cfg.Stderr, "Note: "+print.Printable(text))
		}
	}
}

// remarks returns consequences of grants that are easy to overlook.
func remarks(targets []target.Target, subjects []rbacv1.Subject) []string {
	var texts []string
	for _, t := range targets {
		if len(t.Beside) > 0 {
			texts = append(texts, readingRemark(t))
		}
		switch {
		case t.Verb == rights.TaskUse && t.Endpoint != "":
			texts = append(texts, "to request certificates there, a ServiceAccount needs further rights, and the ACME server needs the right to act as it: 'certplane acme allow' prints all of them.")
		case t.Verb == rights.TaskRequest:
			texts = append(texts, requestRemark(t))
		case t.Verb == rights.TaskRevoke:
			texts = append(texts, "they may also read the records of all issued certificates, in which 'certplane revoke' finds certificates.")
		case t.Verb == rights.TaskSign && t.Signers == "":
			texts = append(texts, "cert-manager.io has no right to sign for one issuer: users who may write certificaterequests/status may answer all CertificateRequests there.")
		case t.Verb == rights.TaskApprove && slices.Contains(t.SignerNames(), certificatesv1.KubeAPIServerClientSignerName):
			texts = append(texts, clientRemark)
		case t.Verb == rights.TaskApprove && t.Signer == "kubernetes.io/*":
			texts = append(texts, clientRemark)
		}
	}
	for _, s := range subjects {
		if text := crowds[s.Name]; s.Kind == rbacv1.GroupKind && text != "" {
			texts = append(texts, "the group "+s.Name+" is "+text)
		}
	}
	return texts
}

// removalRemarks lists removed rights that were not limited to one signer.
func removalRemarks(targets []target.Target) []string {
	var texts []string
	for _, t := range targets {
		if t.Signers == "" && t.ObjectName() == "" && !t.NeedsReference() {
			texts = append(texts, fmt.Sprintf("the right to %s %ss was a right for all signers, and was removed for all of them.", t.Verb, t.Kind.Name))
		}
	}
	return texts
}

func requestRemark(t target.Target) string {
	if t.NeedsReference() {
		return "RBAC cannot limit requests to a signer: this right permits CertificateSigningRequests for all signers. Only Issuers require a right to refer to them, which is also granted."
	}
	return fmt.Sprintf("RBAC cannot limit requests to a signer: this is the right to create %ss for all signers. "+
		"To limit the users who may request from %s, a CertificatePolicy must require the verb \"use\"; grant it with 'certplane grant use'.", t.Kind.Name, t.Signer)
}

// readingRemark lists the rights to read in a grant for approvers.
func readingRemark(t target.Target) string {
	what := "Signers"
	if t.Kind == rights.IssuerRequests {
		what = "issuers"
	}
	where := "in all namespaces"
	if namespace := t.NamespaceBeside(); namespace != "" {
		where = "in the namespace " + namespace
	}
	return fmt.Sprintf("approvers may also read the basis of decisions: %s, policies, Events %s, and the rights of other users (create on subjectaccessreviews). "+
		"'certplane explain' and the console show it with each request.", what, where)
}

const clientRemark = "approvers for " + certificatesv1.KubeAPIServerClientSignerName + " decide which users and groups the API server authenticates. " +
	"Together with the right to request, this is the right to act as any user except those in system:masters."

// crowds are groups whose members are not added individually.
var crowds = map[string]string{
	"system:authenticated":   "every authenticated user, including service accounts and nodes.",
	"system:unauthenticated": "every unauthenticated user.",
	"system:serviceaccounts": "all service accounts in all namespaces.",
	"system:masters":         "permitted everything by API servers, without this grant.",
}

// missing returns issuers and service accounts that do not exist: their names may be
// misspelt. It skips kinds that cannot be read.
func missing(ctx context.Context, c client.Client, targets []target.Target, subjects []rbacv1.Subject) []string {
	var texts []string
	absent := func(apiVersion, kind, namespace, name string) {
		object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); apierrors.IsNotFound(err) {
			texts = append(texts, fmt.Sprintf("the %s %s does not exist yet.", kind, strings.TrimPrefix(namespace+"/"+name, "/")))
		}
	}
	for _, t := range targets {
		if issuer, ok := t.Issuer(); ok {
			absent(certmanager.Group+"/v1", issuer.Kind, issuer.Namespace, issuer.Name)
		}
	}
	for _, s := range subjects {
		if s.Kind == rbacv1.ServiceAccountKind {
			absent("v1", s.Kind, s.Namespace, s.Name)
		}
	}
	return texts
}
