// Styles are files of their own; the build puts them together.
declare module "*.css";
