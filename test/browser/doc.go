// Package browser uses the console as people do: in Chromium, with a keyboard and a
// pointer, with "certplane serve" and "certplane console" as they are built. Each page is
// judged by axe, too.
//
// It is a module of its own because the product must not need what drives the browser.
// Chromium and axe are installed by install.sh; they are no part of the product.
package browser
