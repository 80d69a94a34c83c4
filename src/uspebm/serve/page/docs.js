// The service's own OpenAPI document, as a page to read.

const $ = (id) => document.getElementById(id);
let token = "";

function made(name, text, ...children) {
  const element = document.createElement(name);
  element.textContent = text;
  element.append(...children);
  return element;
}

function schemaOf(all, schema) {
  const name = schema?.$ref?.split("/").pop();
  return name ? all.components.schemas[name] : schema ?? {};
}

function typeOf(schema) {
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  return schema.type === "array" ? `list of ${schema.items ? typeOf(schema.items) || "anything" : "anything"}` : schema.type ?? "";
}

function table(head, rows) {
  const lines = [head, ...rows].map((cells, k) => made("tr", "", ...cells.map((cell) => made(k ? "td" : "th", cell))));
  return made("div", "", made("table", "", ...lines));
}

function operation(all, path, method, said) {
  const section = made("section", "", made("h2", `${method.toUpperCase()} ${path}`), made("p", said.summary ?? ""));
  if (said.parameters?.length) {
    section.append(made("h3", "Parameters"), table(["name", "type", "what"],
      said.parameters.map((one) => [one.name, typeOf(one.schema), one.description ?? ""])));
  }
  if (said.requestBody) {
    section.append(made("h3", "Content types"), made("p", Object.keys(said.requestBody.content).join(", ")));
  }
  const fields = schemaOf(all, said.responses?.["200"]?.content?.["application/json"]?.schema).properties;
  if (fields) {
    section.append(made("h3", "Answer"), table(["field", "type", "what"],
      Object.entries(fields).map(([name, one]) => [name, typeOf(one), one.description ?? ""])));
  }
  const wrong = Object.entries(said.responses ?? {}).filter(([code]) => Number(code) >= 400);
  if (wrong.length) {
    section.append(made("h3", "Refusals"), made("p", `${wrong.map(([code, one]) => `${code} ${one.description}`).join(", ")}; the body is {"error": what is wrong}.`));
  }
  for (const one of section.querySelectorAll("div")) one.className = "scrolled";
  return section;
}

async function begin() {
  const answer = await fetch("/openapi.json", { headers: token ? { authorization: `Bearer ${token}` } : {} });
  const all = await answer.json();
  $("access").hidden = answer.ok;
  if (!answer.ok) return;
  $("paths").replaceChildren(...Object.entries(all.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, said]) => operation(all, path, method, said))));
}

$("example").textContent = [
  `curl ${location.origin}/info`,
  `curl ${location.origin}/score -H 'Content-Type: application/json' -d '{"rows": [[1, 2, 3]]}'`,
  `curl '${location.origin}/score?false_alarm_rate=0.01&nearest=3' -H 'Content-Type: application/x-npy' --data-binary @rows.npy`,
  `curl ${location.origin}/score -H 'Content-Type: image/png' --data-binary @image.png`,
].join("\n");
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  begin();
});
begin();
