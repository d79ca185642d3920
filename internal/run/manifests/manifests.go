// Package manifests makes the objects that install the certificate controllers
// in a cluster.
package manifests

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
)

// The names of the installed objects.
const (
	// name is the name of the Deployment and of the objects that belong to it: the account
	// of the process itself, its configuration, service and lease.
	name = "certplane-controllers"
	// caSecret has the files of the signers' CA. The administrator creates it.
	caSecret = "certplane-ca"
)

// Config configures the manifests.
type Config struct {
	// Image is the container image of this program.
	Image string
	// Replicas is the number of pods; 0 stands for DefaultReplicas.
	Replicas int32
	// Requests and Limits are the resources of a pod, in addition to the defaults
	// or in place of them. "0" removes one.
	Requests, Limits map[string]string
	// Controllers is the configuration of the controllers. Its addresses are
	// completed for a pod.
	Controllers cluster.Config
}

var errNoImage = errors.New("--image is empty: name the container image of this program, as in registry.example.com/certplane:v1")

// Objects returns the objects to install, in the order in which to create them.
func Objects(cfg Config) ([]runtime.Object, error) {
	if cfg.Image == "" {
		return nil, errNoImage
	}
	size, err := sizeOf(cfg)
	if err != nil {
		return nil, err
	}
	settings, err := inPod(cfg)
	if err != nil {
		return nil, err
	}
	text, err := configFile(settings)
	if err != nil {
		return nil, err
	}
	kinds, err := definitions(settings)
	if err != nil {
		return nil, err
	}
	objects := append([]runtime.Object{namespace(settings.Namespace)}, kinds...)
	objects = append(objects, accountObjects(settings)...)
	objects = append(objects, userRoles(settings)...)
	objects = append(objects,
		configMap(settings.Namespace, text),
		deployment(cfg.Image, size, settings, text),
		disruptionBudget(settings.Namespace),
		service(settings),
	)
	objects = append(objects, listsObjects(settings)...)
	objects = append(objects, acmeObjects(settings)...)
	return append(objects, webhookObjects(settings)...), nil
}

// definitions are the kinds that the chosen controllers work with and clusters
// do not have. Clusters with cert-manager have those of cert-manager.io, maybe
// in another version, so these are installed only if a chosen controller works
// with them.
func definitions(cfg cluster.Config) ([]runtime.Object, error) {
	groups := groups(cfg)
	var kinds []runtime.Object
	for _, name := range slices.Concat(crds.Names(), crds.Optional()) {
		if _, group, _ := strings.Cut(name, "."); !slices.Contains(groups, group) {
			continue
		}
		definition, err := crds.Read(name)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, definition)
	}
	return kinds, nil
}

// groups are the API groups of the kinds that the chosen controllers work with.
func groups(cfg cluster.Config) []string {
	var groups []string
	for _, c := range rights.Controllers() {
		if slices.Contains(cfg.Accounts(), c.Account) {
			groups = append(groups, c.Groups...)
		}
	}
	return groups
}

// Write writes the objects as YAML. The output for the same cfg is always the
// same.
func Write(out io.Writer, cfg Config) error {
	objects, err := Objects(cfg)
	if err != nil {
		return err
	}
	return write(out, fmt.Sprintf(heading, caSecret, cfg.Controllers.Namespace), objects)
}

func write(out io.Writer, heading string, objects []runtime.Object) error {
	text := &strings.Builder{}
	text.WriteString(heading)
	for _, object := range objects {
		document, err := encode(object)
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "---\n%s", document)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

const heading = `# Made by "certplane manifests". The pods wait for the Secret with the CA:
#   kubectl --namespace %[2]s create secret tls %[1]s --cert ca.crt --key ca.key
`

// labels are on everything and select the pods.
func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "certplane", "app.kubernetes.io/component": "controllers"}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels()}
}
