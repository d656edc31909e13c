// The pages work without this script. It shows the buttons that copy a command, and
// renews what changes when the server reports an event.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) {
    return;
  }
  const code = button.parentElement.querySelector("code");
  let done = "Copied";
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    getSelection().selectAllChildren(code); // a page without TLS may not use the clipboard
    done = "Selected";
  }
  button.textContent = done;
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

const events = document.body.dataset.events;
if (events) {
  let renewing = false;
  let again = false;
  let skipped = false; // an element that the reader was using
  const renew = async () => {
    if (renewing) {
      again = true;
      return;
    }
    renewing = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const old of document.querySelectorAll("[data-live][id]")) {
          const now = fresh.getElementById(old.id);
          if (!now || now.outerHTML === old.outerHTML) {
            continue;
          }
          if (old.contains(document.activeElement)) {
            skipped = true; // until the reader goes on
            continue;
          }
          old.replaceWith(document.importNode(now, true));
        }
      }
    } catch {
      // the server is unreachable: the next event is another attempt
    }
    renewing = false;
    if (again) {
      again = false;
      renew();
    }
  };
  document.addEventListener("focusout", () => {
    if (skipped) {
      skipped = false;
      setTimeout(renew); // once the focus has moved
    }
  });
  new EventSource(events).addEventListener("message", renew);
}
