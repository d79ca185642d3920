package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusal returns the error for an answer that is not a success: its message, then a hint
// for the administrator.
func refusal(status int, body []byte, way route, group, solver string) error {
	message := messageIn(body)
	if message == "" {
		resource := schema.GroupResource{Group: group, Resource: solver}
		message = apierrors.NewGenericServerResponse(status, "post", resource, "", "", 0, true).Error()
	}
	if hint := way.hint(status, group, solver); hint != "" {
		message += ": " + hint
	}
	return errors.New(message)
}

// messageIn returns the message of a Status, or "" if the body is not a Status.
func messageIn(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body[:min(len(body), maxBody)], &status) != nil || status.Kind != "Status" {
		return ""
	}
	return presentable(status.Message)
}

// rule returns the rule that a ClusterRole must contain.
func rule(group, solver string) string {
	return fmt.Sprintf(`a ClusterRole with the rule apiGroups: [%q], resources: [%q], verbs: ["create"]`, group, solver)
}

func (a *aggregator) hint(status int, group, solver string) string {
	switch status {
	case http.StatusForbidden:
		return "bind " + rule(group, solver) + " to the service account that solves challenges"
	case http.StatusNotFound:
		return fmt.Sprintf("no DNS webhook serves the solver %q of group %q; see the APIService %s.%s and the solver's name", solver, group, version, group)
	case http.StatusServiceUnavailable:
		return fmt.Sprintf("the DNS webhook of group %q cannot be reached by the API server; see the APIService %s.%s", group, version, group)
	case http.StatusGatewayTimeout:
		return "the DNS webhook may still be at work; it is called again"
	}
	return ""
}

func (e *endpoint) hint(status int, group, solver string) string {
	switch status {
	case http.StatusUnauthorized:
		if !e.settings.hasCredentials() {
			return fmt.Sprintf("the DNS webhook of group %q does not accept this server's certificate: start it with --authentication-kubeconfig for this server, as a user who has the Role extension-apiserver-authentication-reader in kube-system", group)
		}
		return fmt.Sprintf("the DNS webhook of group %q does not accept the credentials in acme.dns01.webhooks", group)
	case http.StatusForbidden:
		as := "the user of the credentials in acme.dns01.webhooks"
		if e.byProxy() {
			as = e.identity.User
		}
		return "bind " + rule(group, solver) + " to " + as
	case http.StatusNotFound:
		return fmt.Sprintf("the server at %s has no solver %q of group %q", strings.TrimSuffix(e.settings.URL, "/"), solver, group)
	case http.StatusServiceUnavailable:
		return fmt.Sprintf("the DNS webhook at %s is not available", strings.TrimSuffix(e.settings.URL, "/"))
	}
	return ""
}
