package certpolicy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// The limits of messages.
const (
	maxValueBytes   = 128
	maxListed       = 10
	maxViolations   = 10
	maxMessageBytes = 5 * 1024
)

// quoted returns a value of a request for messages: short, and without characters that
// could disturb a terminal.
func quoted(value string) string { return strconv.QuoteToASCII(cut(value, maxValueBytes)) }

// cut shortens a text to at most max bytes, at the boundary of a character.
func cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	end := max - len("...")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// enumerated lists the texts of a policy, at most maxListed of them.
func enumerated(texts []string) string {
	if more := len(texts) - maxListed; more > 0 {
		return strings.Join(texts[:maxListed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(texts, ", ")
}

func quotedList(values []string) string {
	quotes := make([]string, len(values))
	for i, value := range values {
		quotes[i] = quoted(value)
	}
	return enumerated(quotes)
}

// message returns the message for the violations of a decision: it begins with the
// first policy and ends with that policy's own message. It omits violations that an
// exception covers.
func (s *Set) message(violations []v1alpha1.PolicyViolation) string {
	var texts []string
	var first string
	for _, v := range s.Disclosed(violations) {
		if first == "" {
			first = v.Policy
		}
		text := v.Message
		if v.Policy != first {
			text = "certificate policy " + v.Policy + ": " + text
		}
		texts = append(texts, text)
	}
	if first == "" {
		return ""
	}
	message := "certificate policy " + first + ": " + joined(texts)
	if p := s.Policy(first); p != nil && p.spec.Message != "" {
		message += ". " + oneLine(p.spec.Message)
	}
	return message
}

// joined joins the texts of violations within the limits.
func joined(texts []string) string {
	var b strings.Builder
	for i, text := range texts {
		if i == maxViolations || i > 0 && b.Len()+len(text) > maxMessageBytes {
			fmt.Fprintf(&b, "; and %d more", len(texts)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(cut(text, maxMessageBytes))
	}
	return b.String()
}

// oneLine returns a text without line breaks and other characters that could
// disturb a terminal, such as those that change the direction of writing.
func oneLine(text string) string {
	fields := strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return !unicode.IsPrint(r) })
	return strings.Join(fields, " ")
}

// examples returns the first texts that would be permitted.
func examples(texts []string) []string {
	more := len(texts) - maxListed
	if more <= 0 {
		return texts
	}
	return append(slices.Clone(texts[:maxListed]), fmt.Sprintf("and %d more", more))
}
